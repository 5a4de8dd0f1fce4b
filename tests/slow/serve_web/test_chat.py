"""Tests conversations: sending, streaming, stopping, editing, and faults."""
import time

from selenium.webdriver.common.keys import Keys

from browser import PageTest
from stand_in import MODEL, SCRIPTS


class Chat(PageTest):
    expected_errors = ("429", "401", "ERR_INCOMPLETE_CHUNKED_ENCODING")

    def test_answer_streams_and_shows_statistics(self):
        self.type("slow markdown" + Keys.ENTER)
        lengths = set()
        while not lengths or not self.idle():
            lengths.update(len(node.text) for node in self.all(".answer .markdown"))
        self.assertGreater(len(lengths), 5)
        self.assertRegex(self.text(".answer .stats"), r"^101 tokens · [\d.]+ tokens/s · first after [\d.]+ ms · prompt 30 tokens, 16 of them")
        rate = float(self.text(".answer .stats").split(" · ")[1].split()[0])
        self.assertTrue(40 < rate < 110, rate)  # the stand-in sends a token every 10 ms
        self.assertEqual("131 of 4,096 tokens of the context are used.", self.text("#context"))

    def test_markdown_becomes_elements(self):
        self.submit_and_wait("markdown")
        self.picture("light")
        counts = {css: len(self.all(f".markdown {css}")) for css in
                  ("h3", "h4", "strong", "em", "del", "ol > li", "ol ul > li", ".code pre", "table tbody tr", "blockquote", "hr", "a")}
        self.assertEqual({"h3": 1, "h4": 1, "strong": 2, "em": 1, "del": 1, "ol > li": 3, "ol ul > li": 2, ".code pre": 1,
                          "table tbody tr": 2, "blockquote": 1, "hr": 1, "a": 2}, counts)
        self.assertIn("# <b>not bold</b>\n    return", self.one(".markdown pre").get_attribute("textContent"))
        self.assertEqual("https://example.org/a_b_c", self.all(".markdown a")[1].get_attribute("href"))
        self.assertIn("snake_case_names", self.answer())
        self.assertEqual("noopener noreferrer nofollow", self.one(".markdown a").get_attribute("rel"))

    def test_streaming_keeps_rendered_nodes(self):
        self.type("slow markdown" + Keys.ENTER)
        self.wait(lambda: self.all(".markdown h4"), "the second heading")
        self.driver.execute_script("document.querySelector('.markdown h3').marked = true")
        self.wait(self.idle, "the end")
        self.assertTrue(self.driver.execute_script("return document.querySelector('.markdown h3').marked"))

    def test_split_characters_and_events(self):
        self.submit_and_wait("pieces")
        self.assertEqual("Grüße, 世界 🌍!\nA second paragraph.", self.answer())

    def test_stop_keeps_the_text_and_cancels_the_request(self):
        self.type("slow" + Keys.ENTER)
        self.wait(lambda: "word5" in self.answer(), "some words")
        self.keys(Keys.ESCAPE)
        self.wait(self.idle, "the stop")
        self.assertIn("Stopped.", self.text(".answer .stats"))
        self.assertIn("word5.", self.stored()[0]["messages"][1]["content"])
        self.wait(lambda: self.server.gone == 1, "the server to notice")
        self.type("next" + Keys.ENTER)
        self.wait(lambda: self.answer() == "You said: next", "another answer")

    def test_regenerate_and_undo(self):
        self.submit_and_wait("one")
        self.submit_and_wait("two")
        first = self.all(".answer")[0]
        [button for button in first.find_elements("css selector", "button") if button.text == "Regenerate"][0].click()
        self.wait(lambda: self.idle() and len(self.all(".message")) == 2, "the shorter conversation")
        self.assertEqual(["one"], [message["content"] for message in self.server.bodies[-1]["messages"]])
        self.named("Undo").click()
        self.wait(lambda: len(self.all(".message")) == 4, "what was there")
        self.assertEqual("You said: two", self.answer())
        self.assertEqual(4, len(self.stored()[0]["messages"]))

    def test_edit_restarts_the_conversation_there(self):
        self.submit_and_wait("one")
        self.submit_and_wait("two")
        self.named("Edit", ".message:nth-child(1)").click()
        self.keys(" and a half" + Keys.ENTER)
        self.wait(lambda: self.idle() and len(self.all(".message")) == 2, "the shorter conversation")
        self.assertEqual("You said: one and a half", self.answer())
        self.named("Undo").click()
        self.wait(lambda: len(self.all(".message")) == 4, "what was there")

    def test_copy_can_be_pressed_twice(self):
        self.submit_and_wait("one")
        copy = self.named("Copy", ".answer")
        copy.click()
        self.wait(lambda: copy.text == "Copied", "the first copy")
        copy.click()
        time.sleep(2)
        self.assertEqual("Copy", copy.text)

    def test_edit_can_be_cancelled(self):
        self.submit_and_wait("one")
        self.named("Edit").click()
        self.keys("x", Keys.ESCAPE)
        self.assertEqual("one", self.text(".user .body"))
        self.assertEqual(1, len(self.server.bodies))

    def test_settings_are_sent_with_the_request(self):
        self.named("Settings").click()
        self.assertEqual("0.7", self.one("#setting-temperature").get_attribute("placeholder"))
        self.one("#system").send_keys("Be brief.")
        self.one("#setting-temperature").send_keys("0")
        self.one("#setting-top_k").send_keys("1.5")
        self.one("#setting-stop").send_keys("END\n###")
        self.named("Save").click()
        self.assertEqual("Top k: expected a whole number of -1 to 1000000000", self.text("#settings-dialog .wrong"))
        self.assertEqual("setting-top_k", self.focused())
        self.keys(Keys.BACKSPACE * 3, "40")
        self.named("Save, also for new conversations").click()
        self.submit_and_wait("hello")
        body = self.server.bodies[-1]
        self.assertEqual([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}], body.pop("messages"))
        self.assertEqual({"model": "stand-in", "temperature": 0, "top_p": 0.9, "top_k": 40, "stop": ["END", "###"], "stream": True,
                          "stream_options": {"include_usage": True, "continuous_usage_stats": True}}, body)
        self.named("New conversation").click()
        self.submit_and_wait("again")
        self.assertEqual(40, self.server.bodies[-1]["top_k"])

    def test_the_recommended_settings_are_sent_unless_the_user_chooses_others(self):
        self.submit_and_wait("hello")
        body = self.server.bodies[-1]
        self.assertEqual({"temperature": 0.7, "top_p": 0.9}, {key: body[key] for key in body if key not in ("model", "messages", "stream", "stream_options")})
        self.server.model = MODEL | {"defaults": {"temperature": 0.6, "top_k": 20}}
        self.driver.refresh()
        self.wait(lambda: self.text("#server"), "the server")
        self.submit_and_wait("again")
        body = self.server.bodies[-1]
        self.assertEqual((0.6, 20, None), (body["temperature"], body["top_k"], body.get("top_p")))

    def test_reasoning_is_collapsed(self):
        self.submit_and_wait("think")
        self.assertEqual("Four.", self.answer())
        self.assertFalse(self.one(".thoughts").is_displayed())
        self.one(".answer summary").click()
        self.assertEqual("Two and two …", self.text(".thoughts"))

    def test_finish_reasons_and_errors_are_shown(self):
        self.submit_and_wait("limit")
        self.assertIn("Ended at the limit of tokens.", self.text(".answer .stats"))
        self.submit_and_wait("break")
        self.assertEqual("Half of it", self.answer())
        self.assertEqual("The engine ran out of memory.", self.all(".failure")[-1].text)
        self.submit_and_wait("cut")
        self.assertEqual("Half of a", self.answer())
        self.assertEqual("The connection ended before the answer did.", self.all(".failure")[-1].text)
        self.server.full = True
        self.submit_and_wait("anything")
        self.assertEqual("The queue is full. Try again in 7 seconds.", self.all(".failure")[-1].text)
        self.server.full = False
        self.named("Regenerate").click()
        self.wait(lambda: self.idle() and self.answer() == "You said: anything", "the answer")
        self.picture("failures")

    def test_api_key_is_requested_and_remembered(self):
        self.server.key = "secret"
        self.driver.refresh()
        self.wait(lambda: self.one("#key-dialog").is_displayed(), "the question")
        self.keys("wrong" + Keys.ENTER)
        self.wait(lambda: self.text("#key-dialog .wrong") == "The API key is wrong.", "the answer that it is wrong")
        self.picture("key")
        self.keys("secret" + Keys.ENTER)
        self.wait(lambda: self.text("#server") == "stand-in", "the model")
        self.submit_and_wait("hello")
        self.driver.refresh()
        self.wait(lambda: self.text("#server") == "stand-in", "the model")
        self.assertFalse(self.one("#key-dialog").is_displayed())
        self.assertNotIn("secret", str(self.driver.execute_script("return {...localStorage}")))

    def test_answer_continues_while_another_conversation_is_open(self):
        self.type("slow" + Keys.ENTER)
        self.wait(lambda: "word3" in self.answer(), "some words")
        self.named("New conversation").click()
        self.submit_and_wait("hello")
        self.assertEqual("You said: hello", self.answer())
        [entry for entry in self.all("#list button") if "slow" in entry.text][0].click()
        count = len(self.answer())
        self.wait(lambda: len(self.answer()) > count, "more of the first answer")
        self.named("Stop").click()
        self.wait(self.idle, "the stop")

    def test_copy_buttons(self):
        self.driver.execute_cdp_cmd("Browser.grantPermissions", {"origin": self.server.url, "permissions": ["clipboardReadWrite"]})

        def copied():
            return self.driver.execute_async_script("navigator.clipboard.readText().then(arguments[arguments.length - 1])")
        self.submit_and_wait("markdown")
        self.named("Copy", ".code").click()
        self.wait(lambda: copied() == SCRIPTS["markdown"].text.split("```")[1].removeprefix("python\n").rstrip("\n"), "the code")
        self.named("Copy", ".foot").click()
        self.wait(lambda: copied() == SCRIPTS["markdown"].text, "the answer")
        # Browsers offer no clipboard to pages that come over plain HTTP from another machine.
        self.driver.execute_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
        self.named("Copy", ".user").click()
        self.driver.execute_script("document.getElementById('text').focus()")
        self.chord(Keys.CONTROL, "v")
        self.assertEqual("markdown", self.one("#text").get_attribute("value"))

    def test_page_recovers_when_the_server_is_ready_again(self):
        self.expected_errors += ("ERR_CONNECTION", "503")
        self.wait(lambda: self.text("#server"), "the server")
        self.server.loading = True
        self.submit_and_wait("hello")
        self.assertEqual("The model is being loaded.", self.text(".failure"))
        self.wait(lambda: self.text("#server") == "The server is loading the model …", "the state")
        self.server.loading = False
        self.wait(lambda: self.text("#server") == "stand-in", "the model")

    def test_hostile_markdown_renders_quickly(self):
        begin = time.monotonic()
        self.submit_and_wait("hostile")
        self.assertLess(time.monotonic() - begin, 8)

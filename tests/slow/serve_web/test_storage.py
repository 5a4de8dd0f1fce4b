"""Tests what the page stores: reloads, the list of conversations, and files. Code in files and
answers must never run."""
import json
import pathlib
import tempfile

from selenium.webdriver.common.keys import Keys

from browser import PageTest

MARKUP = '<img src=x onerror="window.attacked=1"><script>window.attacked=1</script>'


class Storage(PageTest):
    def attacked(self):
        return self.driver.execute_script("return window.attacked === 1")

    def load(self, value):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(value if isinstance(value, str) else json.dumps(value))
            file.flush()
            self.one("#import").send_keys(file.name)
            self.wait(lambda: self.one("#notice").is_displayed() or "imported" in self.text("#undo"), "the end of the import")

    def test_conversations_survive_a_reload(self):
        self.submit_and_wait("one")
        self.named("New conversation").click()
        self.submit_and_wait("two")
        self.one("#text").send_keys("a draft")
        self.driver.refresh()
        self.assertEqual(["two", "one"], [entry.text for entry in self.all("#list button")])
        self.assertEqual("You said: two", self.answer())
        self.assertEqual("a draft", self.one("#text").get_attribute("value"))

    def test_reload_during_an_answer_keeps_its_text(self):
        self.type("slow" + Keys.ENTER)
        self.wait(lambda: "word30." in self.answer(), "some words")
        self.driver.refresh()
        self.assertIn("word30.", self.answer())
        self.assertIn("Cut off when the page was left.", self.text(".answer .stats"))
        self.named("Regenerate").click()
        self.wait(lambda: "word3." in self.answer() and "word30." not in self.answer(), "the answer again")
        self.named("Stop").click()
        self.wait(self.idle, "the stop")

    def test_rename_search_delete_undo(self):
        self.submit_and_wait("apples")
        self.named("New conversation").click()
        self.submit_and_wait("pears")
        self.named("Rename").click()
        self.one("#name").send_keys("Fruit" + Keys.ENTER)
        self.assertEqual("Fruit", self.text("#title"))
        self.one("#search").send_keys("APPLES")
        self.assertEqual(["apples"], [entry.text for entry in self.all("#list button")])
        self.assertEqual("1 conversation found", self.text("#found"))
        self.one("#search").clear()
        self.one("#search").send_keys("x", Keys.BACKSPACE)
        self.named("Delete").click()
        self.assertEqual(1, len(self.stored()))
        self.named("Undo").click()
        self.assertEqual("Fruit", self.text("#title"))
        self.assertEqual({"Fruit", "apples"}, {conversation["title"] for conversation in self.stored()})

    def test_changes_appear_in_other_tabs(self):
        self.submit_and_wait("one")
        page = self.driver.current_window_handle
        self.driver.switch_to.new_window("tab")
        self.driver.get(self.server.url)
        self.submit_and_wait("two")
        self.driver.close()
        self.driver.switch_to.window(page)
        self.wait(lambda: self.answer() == "You said: two", "the other tab's message")

    def test_changes_of_other_conversations_leave_the_open_one_alone(self):
        self.submit_and_wait("one")
        self.submit_and_wait("two")
        page = self.driver.current_window_handle
        self.driver.switch_to.new_window("tab")
        self.driver.get(self.server.url)
        self.named("New conversation").click()
        self.submit_and_wait("other")
        self.driver.close()
        self.driver.switch_to.window(page)
        self.wait(lambda: len(self.all("#list button")) == 2, "the other tab's conversation")
        [button for button in self.all(".answer")[0].find_elements("css selector", "button") if button.text == "Regenerate"][0].click()
        self.wait(lambda: self.idle() and len(self.all(".message")) == 2, "the shorter conversation")
        self.assertEqual("You said: one", self.answer())

    def test_import_restores_an_export(self):
        self.submit_and_wait("markdown")
        self.submit_and_wait("think")
        before = self.stored()
        self.named("Export all").click()
        path = self.downloaded("neuronmm-conversations")
        self.named("Delete").click()
        self.assertEqual([], self.stored())
        self.load(path.read_text())
        self.assertEqual(before, self.stored())
        self.assertIn("1 imported, 0 already here.", self.text("#undo"))
        self.load(path.read_text())
        self.wait(lambda: "0 imported, 1 already here." in self.text("#undo"), "the second import")
        self.assertEqual(before, self.stored())

    def test_import_of_new_and_known_conversations_opens_a_new_one(self):
        conversations = [{"id": name, "title": name, "named": True, "messages": [{"role": "user", "content": name}]} for name in ("known", "new")]
        self.load({"format": "neuronmm-conversations", "version": 1, "conversations": conversations[:1]})
        self.load({"format": "neuronmm-conversations", "version": 1, "conversations": conversations[::-1]})
        self.wait(lambda: "1 imported, 1 already here." in self.text("#undo"), "the second import")
        self.assertEqual("new", self.text("#title"))

    def test_import_of_a_transcript_of_the_chat_command(self):
        self.load([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello."}])
        self.assertEqual("Hello.", self.answer())
        self.assertEqual({"system": "Be brief."}, self.stored()[0]["settings"])

    def test_import_of_an_unfinished_answer(self):
        conversation = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hel"}]}
        self.load({"format": "neuronmm-conversations", "version": 1, "conversations": [conversation]})
        self.assertEqual("Cut off when the page was left.", self.text(".answer .stats"))

    def test_invalid_files_are_rejected(self):
        good = {"title": "good", "messages": []}
        for value, message in [
                ("{", "JSON"), ({"format": "other"}, 'format: expected "neuronmm-conversations"'),
                ({"format": "neuronmm-conversations", "version": 2}, "version: expected 1"),
                ([{"role": "tool", "content": ""}], 'file.messages[0].role: expected "user" or "assistant"'),
                ({"conversations": [good, {"messages": [{"role": "user", "content": 5}]}]}, "conversations[1].messages[0].content: expected a text"),
                ({"conversations": [{"messages": [], "settings": {"top_p": 2}}]}, "conversations[0].settings.top_p: expected a number of 0 to 1")]:
            if isinstance(value, dict) and "conversations" in value:
                value |= {"format": "neuronmm-conversations", "version": 1}
            self.load(value)
            self.assertIn(message, self.text("#notice"))
            self.named("Dismiss", "#notice").click()
            self.assertEqual([], self.stored())

    def test_scripts_in_answers_do_not_run(self):
        self.submit_and_wait("attack")
        self.picture("attack")
        self.assertFalse(self.attacked())
        self.assertEqual([], self.all("#turns :is(script, img, svg, iframe, [onerror], [onclick], [onload], [style])"))
        addresses = [link.get_attribute("href") for link in self.all("#turns a")]
        self.assertEqual(["https://outside.example/p.png", "https://ok.example/%22onmouseover=%22window.attacked=1"], addresses)
        names = self.driver.execute_script("return [...document.querySelectorAll('#turns a')].flatMap(link => link.getAttributeNames())")
        self.assertEqual({"href", "target", "rel"}, set(names))

    def test_scripts_in_messages_titles_and_files_do_not_run(self):
        self.submit_and_wait(MARKUP)
        self.named("Rename").click()
        self.one("#name").clear()
        self.one("#name").send_keys(MARKUP + Keys.ENTER)
        conversation = {"id": "../../x", "title": MARKUP, "named": True, "messages": [
            {"role": "user", "content": MARKUP}, {"role": "assistant", "content": MARKUP, "reasoning": MARKUP, "error": MARKUP, "end": MARKUP,
                                                  "stats": {"tokens": 1}, "constructor": 1, "__proto__": {"attacked": 1}}]}
        self.load({"format": "neuronmm-conversations", "version": 1, "conversations": [conversation]})
        self.driver.refresh()
        self.assertEqual(MARKUP, self.text("#title"))
        self.assertEqual(MARKUP, self.text(".failure"))
        self.assertEqual([], self.all(":is(nav, main) :is(script, img)"))
        self.assertFalse(self.attacked())

    def test_content_security_policy_blocks_scripts(self):
        self.expected_errors = ("Content Security Policy", "This document requires 'Trusted")
        self.driver.execute_script("""
          const tries = [() => document.body.insertAdjacentHTML('beforeend', '<b>x</b>'), () => { document.body.innerHTML = '<b>x</b>'; },
                         () => document.body.setAttribute('onclick', 'window.attacked=1'), () => setTimeout('window.attacked=1', 0)];
          for (const each of tries) try { each(); window.attacked = 1; } catch { }
          const script = document.createElement('a'); script.href = 'javascript:window.attacked=1'; document.body.append(script);
          script.click();""")
        self.wait(lambda: True, "timers")
        self.assertFalse(self.attacked())
        self.assertEqual([], self.all("body > b"))

    def test_full_storage_is_reported_and_chat_continues(self):
        self.driver.execute_script("""
          const half = 'x'.repeat(1 << 20);
          try { for (let i = 0;; ++i) localStorage.setItem('fill' + i, half); } catch { }
          try { for (let i = 0;; ++i) localStorage.setItem('some' + i, 'x'.repeat(100)); } catch { }""")
        self.submit_and_wait("markdown")
        self.assertIn("its storage is full", self.text("#notice"))
        self.assertIn("Done.", self.answer())
        self.named("Dismiss", "#notice").click()
        self.submit_and_wait("two")
        self.assertEqual("You said: two", self.answer())
        self.named("Export all").click()
        exported = json.loads(pathlib.Path(self.downloaded("neuronmm-conversations")).read_text())
        self.assertEqual(4, len(exported["conversations"][0]["messages"]))

"""Tests the page with the keyboard alone, with screen readers, in dark mode and on narrow screens."""
import pathlib

import axe_playwright_python
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from browser import PageTest

AXE = pathlib.Path(axe_playwright_python.__file__).parent / "axe.min.js"


class Access(PageTest):
    def check_with_axe(self, where):
        self.driver.execute_script(AXE.read_text())
        found = self.driver.execute_async_script("axe.run({resultTypes: ['violations']}).then(arguments[arguments.length - 1])")
        self.assertGreater(len(found["passes"]), 10)
        self.assertEqual([], [(where, rule["id"], rule["help"], [node["html"][:200] for node in rule["nodes"]]) for rule in found["violations"]])

    def narrow(self, width=360, height=740):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        self.addCleanup(self.driver.execute_cdp_cmd, "Emulation.clearDeviceMetricsOverride", {})

    def scroll_width(self):
        return self.driver.execute_script("return document.documentElement.scrollWidth")

    def test_axe_finds_no_violations(self):
        for theme in ("light", "dark"):
            self.driver.execute_script("localStorage.setItem('neuronmm.theme', JSON.stringify(arguments[0]))", theme)
            self.driver.refresh()
            self.check_with_axe(f"empty, {theme}")
            self.submit_and_wait("markdown")
            self.submit_and_wait("think")
            self.check_with_axe(f"chat, {theme}")
            for opener, dialog in (("Settings", "settings"), ("Keys", "help")):
                self.named(opener).click()
                self.check_with_axe(f"{dialog}, {theme}")
                self.picture(f"{dialog}_{theme}")
                self.keys(Keys.ESCAPE)
            self.one("#tab-model").click()
            self.wait(lambda: len(self.all("#plots figure")) == 6, "plots")
            self.one("#layers summary").click()
            self.check_with_axe(f"model, {theme}")
            self.one("#tab-chat").click()
            self.named("New conversation").click()

    def test_use_with_the_keyboard_only(self):
        self.assertEqual("text", self.focused())
        self.keys("one", Keys.SHIFT + Keys.ENTER + Keys.NULL, "line", Keys.ENTER)
        self.wait(lambda: self.all(".answer") and self.idle(), "the answer")
        self.assertEqual("one\nline", self.server.bodies[-1]["messages"][0]["content"])
        self.keys(Keys.ARROW_UP)  # edits the last message
        self.keys("s", Keys.ENTER)
        self.wait(lambda: self.idle() and self.answer() == "You said: one\nlines", "the edited one")
        self.chord(Keys.CONTROL, Keys.SHIFT, "o")
        self.assertEqual(0, len(self.all(".message")))
        self.chord(Keys.CONTROL, "k")
        self.assertEqual("search", self.focused())
        self.keys("lines", Keys.TAB, Keys.NULL)
        self.keys(Keys.ENTER)
        self.assertEqual(2, len(self.all(".message")))
        self.assertIn("one", self.driver.switch_to.active_element.text)  # the focus stays, although the list was rebuilt
        self.chord(Keys.CONTROL, "/")
        self.assertTrue(self.one("#help-dialog").is_displayed())
        self.keys(Keys.ESCAPE)
        self.chord(Keys.CONTROL, ",")
        self.assertEqual("system", self.focused())
        self.keys("Shout.", Keys.ENTER, Keys.ESCAPE)
        self.assertFalse(self.one("#settings-dialog").is_displayed())
        self.driver.execute_script("document.getElementById('tab-chat').focus()")
        self.keys(Keys.ARROW_RIGHT)
        self.assertEqual("tab-model", self.focused())
        self.assertTrue(self.one("#view-model").is_displayed())

    def test_tab_key_reaches_every_control(self):
        self.submit_and_wait("markdown")
        self.driver.execute_script("document.activeElement.blur(); document.querySelector('.skip').focus()")
        reached = set()
        for _ in range(40):
            reached.add(self.driver.execute_script("const e = document.activeElement; return e.id || e.textContent"))
            self.chord(Keys.TAB)
        self.assertLessEqual({"tab-chat", "theme", "help", "new", "search", "export-all", "import", "rename", "settings", "export", "delete",
                              "messages", "text", "send", "Copy", "Edit", "Regenerate"}, reached)

    def test_focus_is_visible(self):
        self.one("#new").send_keys("")
        self.keys(Keys.TAB)
        self.assertEqual("solid", self.driver.switch_to.active_element.value_of_css_property("outline-style"))

    def test_screen_readers_get_each_sentence_once(self):
        self.driver.execute_script("""
          window.heard = [];
          new MutationObserver(all => all.forEach(one => one.addedNodes.forEach(node => heard.push(node.textContent))))
            .observe(document.getElementById('spoken'), {childList: true});""")
        self.submit_and_wait("slow markdown")
        heard = self.driver.execute_script("return window.heard")
        self.assertEqual("log", self.one("#spoken").get_attribute("role"))
        self.assertIn("101 tokens", heard[-1])
        self.assertTrue(3 < len(heard) < 40, heard)
        self.assertEqual(self.stored()[0]["messages"][1]["content"].split(), "".join(heard[:-1]).split())

    def test_dark_mode_by_system_and_by_setting(self):
        def background():
            return self.one("body").value_of_css_property("background-color")
        light = background()
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
        dark = background()
        self.assertNotEqual(light, dark)
        Select(self.one("#theme")).select_by_visible_text("Light")
        self.assertEqual(light, background())
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        Select(self.one("#theme")).select_by_visible_text("Dark")
        self.assertEqual(dark, background())
        self.driver.refresh()
        self.assertEqual(dark, background())
        self.submit_and_wait("markdown")
        self.picture("dark")

    def phone(self, width, height):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": True})
        self.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
        self.addCleanup(self.driver.execute_cdp_cmd, "Emulation.clearDeviceMetricsOverride", {})
        self.addCleanup(self.driver.execute_cdp_cmd, "Emulation.setTouchEmulationEnabled", {"enabled": False})

    def check_targets(self, width, where):
        """Every control that is shown lies on the screen and is large enough for a finger."""
        controls = self.driver.execute_script("""
            return [...document.querySelectorAll('button, select, textarea, input, .file')]
                .filter(e => e.checkVisibility({visibilityProperty: true}) && !e.closest('.unseen'))
                .map(e => [e.id || e.textContent, e.getBoundingClientRect().toJSON()])""")
        self.assertGreater(len(controls), 3)
        for name, box in controls:
            self.assertGreaterEqual(box["height"], 40, (where, name))
            self.assertGreaterEqual(box["left"], 0, (where, name))
            self.assertLessEqual(box["right"], width, (where, name))

    def test_a_phone_shows_mostly_messages_and_has_targets_for_fingers(self):
        for width, height, share in ((380, 700, 0.6), (320, 560, 0.5), (380, 350, 0.3), (740, 360, 0.3)):
            self.phone(width, height)
            answers = len(self.all(".answer"))
            self.type("x" * 200)
            self.one("#send").click()
            self.wait(lambda: len(self.all(".answer")) == answers + 1 and self.idle(), "the answer")
            self.assertEqual(width, self.scroll_width())
            self.assertGreaterEqual(self.one("#messages").size["height"], share * height, (width, height))
            self.check_targets(width, f"chat {width}x{height}")
            self.picture(f"phone_{width}x{height}")
        self.phone(380, 700)
        self.named("Menu").click()
        self.check_targets(380, "menu")
        self.named("Menu").click()
        self.named("Settings").click()
        self.driver.execute_script("document.querySelector('dialog[open]').scrollTop = 1e6")
        self.named("Save", "dialog[open]").click()
        self.one("#tab-model").click()
        self.wait(lambda: len(self.all("#plots figure")) == 6, "plots")
        self.check_targets(380, "model")
        self.assertEqual(380, self.scroll_width())

    def test_narrow_screen_has_no_horizontal_scrolling(self):
        self.narrow()
        self.submit_and_wait("markdown")
        self.submit_and_wait("hostile")
        self.submit_and_wait("https://example.org/" + "very-long-" * 30)
        self.assertEqual(360, self.scroll_width())
        self.named("Regenerate").click()
        self.wait(self.idle, "the answer")
        self.assertEqual(360, self.scroll_width())
        self.picture("phone")
        self.assertFalse(self.one("#new").is_displayed())
        self.named("Menu").click()
        self.assertTrue(self.one("#new").is_displayed())
        self.picture("phone_menu")
        self.keys(Keys.ESCAPE)
        self.assertFalse(self.one("#new").is_displayed())
        self.assertEqual("menu", self.focused())
        self.named("Settings").click()
        self.assertEqual(360, self.scroll_width())
        self.picture("phone_settings")
        self.keys(Keys.ESCAPE)
        self.one("#tab-model").click()
        self.wait(lambda: len(self.all("#plots figure")) == 6, "plots")
        self.assertEqual(360, self.scroll_width())
        self.picture("phone_model")
        self.check_with_axe("phone")

"""Runs the web page in a headless Chromium for tests."""
import json
import pathlib
import tempfile
import time
import unittest

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from stand_in import StandIn

PICTURES = pathlib.Path("build/serve_web/pictures")


def start_chromium(downloads):
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--window-size=1280,900",
                 "--disable-background-networking", "--no-first-run"):
        options.add_argument(flag)
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    return webdriver.Chrome(options, webdriver.ChromeService("/usr/bin/chromedriver"))


class PageTest(unittest.TestCase):
    """A base class whose tests share one browser and one stand-in server. Each test begins with empty
    storage. A test also fails if the page writes errors to the console or contacts another origin."""
    expected_errors = ()  # parts of the console messages that a test provokes

    @classmethod
    def setUpClass(cls):
        PICTURES.mkdir(parents=True, exist_ok=True)
        cls.downloads = tempfile.TemporaryDirectory()
        cls.server = cls.start_server()
        cls.driver = start_chromium(cls.downloads.name)

    @classmethod
    def start_server(cls):
        return StandIn()

    @classmethod
    def tearDownClass(cls):
        cls.driver.quit()
        cls.server.shutdown()
        cls.server.server_close()
        cls.downloads.cleanup()

    def setUp(self):
        self.server.reset()
        self.driver.set_window_size(1280, 900)
        self.driver.get("about:blank")
        self.driver.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": self.server.url, "storageTypes": "all"})
        self.driver.get(self.server.url)
        self.driver.execute_script("sessionStorage.clear()")
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(self.server.url)

    def tearDown(self):
        errors = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        self.assertEqual([], [error for error in errors if not any(part in error for part in self.expected_errors)])
        outside = [url for url in self.requested() if not url.startswith((self.server.url, "data:", f"blob:{self.server.url}", "about:"))]
        self.assertEqual([], outside)

    def requested(self):
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def all(self, css):
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def one(self, css):
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def named(self, text, within="body"):
        shown = [button for button in self.all(f"{within} button") if button.text == text and button.is_displayed()]
        self.assertTrue(shown, f"no button {text!r}")
        return shown[-1]

    def wait(self, condition, what, limit=10):
        WebDriverWait(self.driver, limit, 0.05, ignored_exceptions=(Exception,)).until(lambda _: condition(), f"waited for {what}")

    def text(self, css):
        return self.one(css).text

    def type(self, text):
        self.one("#text").send_keys(text)

    def keys(self, *keys):
        self.driver.switch_to.active_element.send_keys(*keys)

    def chord(self, *keys):
        chain = webdriver.ActionChains(self.driver)
        for key in keys[:-1]:
            chain.key_down(key)
        chain.send_keys(keys[-1])
        for key in keys[:-1]:
            chain.key_up(key)
        chain.perform()

    def focused(self):
        return self.driver.execute_script("return document.activeElement.id")

    def submit_and_wait(self, text):
        """Sends a message and waits for the end of the answer."""
        count = len(self.all(".answer"))
        self.type(text + Keys.ENTER)
        self.wait(lambda: len(self.all(".answer")) == count + 1 and self.idle(), f"the answer to {text!r}")

    def idle(self):
        return self.one("#send").is_displayed()

    def answer(self):
        return self.all(".answer .markdown")[-1].text

    def picture(self, name):
        self.driver.save_screenshot(str(PICTURES / f"{name}.png"))

    def stored(self):
        names = self.driver.execute_script("return Object.keys(localStorage)")
        return [json.loads(self.driver.execute_script("return localStorage.getItem(arguments[0])", name)) for name in names
                if name.startswith("neuronmm.conversation.")]

    def downloaded(self, begins):
        def files():
            return [path for path in pathlib.Path(self.downloads.name).glob(f"{begins}*.json")]
        self.wait(files, f"a file {begins}*.json")
        time.sleep(0.2)
        return files()[0]

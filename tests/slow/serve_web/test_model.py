"""Tests the tab that shows the model and the activity of the server."""
import time

from browser import PageTest
from stand_in import MODEL, matrix


class Model(PageTest):
    expected_errors = ("404",)

    def show(self):
        self.wait(lambda: self.text("#server"), "the server")
        self.one("#tab-model").click()

    def test_facts_sizes_and_ranks(self):
        self.show()
        self.assertEqual(["stand-in", "uv", "whitened", "int8", "8.15", "135,000,000", "12", "4,096 tokens", "cpu", "9.9.9"],
                         [node.text for node in self.all("#facts dd")])
        self.assertIn("43.9 % of the dense", self.text("#bytes"))
        this, dense = [bar.size["width"] for bar in self.all("#bytes .fill")]
        self.assertAlmostEqual(118 / 269, this / dense, delta=0.01)
        self.assertEqual(["Neurons", "Rank of gate", "Rank of up", "Rank of down", "Parameters of the MLP"],
                         [caption.text.split("\n")[0] for caption in self.all("#layers figcaption")])
        heights = [float(bar.get_attribute("height")) for bar in self.all("#layers figure:nth-child(2) .kept")]
        full = float(self.one("#layers figure:nth-child(2) .dense").get_attribute("height"))
        for height, layer in zip(heights, MODEL["layers"], strict=True):
            self.assertAlmostEqual(layer["gate"]["rank"] / 384, height / full, places=6)
        self.assertEqual("Rank of gate per layer: 192 to 320 of 384", self.one("#layers figure:nth-child(2) svg").get_attribute("aria-label"))
        self.one("#layers summary").click()
        cells = [cell.text for cell in self.all("#layers tbody tr:nth-child(2) > *")]
        self.assertEqual(["1", "960 of 1,024", "224 of 384", "224 of 384", "224 of 384", "76.6 % of 100 %"], cells)
        self.picture("model")

    def test_narrow_and_dense_layers_in_one_model(self):
        self.server.model = {"hidden_size": 384, "intermediate_size": 1024, "layers": [
            {"neurons": 1024, "kept_share": 1.0, "gate": {"in_features": 384, "rank": None, "out_features": 1024}},
            {"neurons": 768, "kept_share": 0.5, "input": {"rank": 160}, "gate": {"in_features": 160, "rank": None, "out_features": 768}}]}
        self.driver.refresh()
        self.show()
        self.wait(lambda: self.all("#layers figure"), "the picture")
        self.assertEqual(["Neurons per layer: 768 to 1,024 of 1,024", "Width of the input per layer: 160 to 384 of 384",
                          "Parameters of the MLP per layer: 50 % to 100 % of 100 %"],
                         [picture.get_attribute("aria-label") for picture in self.all("#layers svg")])

    def test_different_bits_per_layer(self):
        self.server.model = {"hidden_size": 384, "intermediate_size": 1024, "layers": [{"gate": matrix(384, 192, 1024, bits)} for bits in (8, 4)]}
        self.driver.refresh()
        self.show()
        self.wait(lambda: self.all("#layers figure"), "the picture")
        self.assertEqual(["Rank of gate per layer: 192 of 384", "Bits per weight of gate per layer: 4 to 8 of 16"],
                         [picture.get_attribute("aria-label") for picture in self.all("#layers svg")])

    def test_live_plots(self):
        self.show()
        time.sleep(8.5)
        self.driver.execute_script("document.getElementById('live-title').scrollIntoView()")
        self.picture("live")
        legends = [figure.text.split("\n") for figure in self.all("#plots .legend")]
        self.assertEqual("running 0", self.all("#plots .legend span")[0].text)
        self.assertEqual("waiting 3", self.all("#plots .legend span")[1].text)
        generated, prompts = [float(node.text.split()[-1]) for node in self.all("#plots .legend span")[2:4]]
        self.assertAlmostEqual(25, generated, delta=2)  # 50 tokens per poll, and a poll every 2 s
        self.assertAlmostEqual(3 * generated, prompts, delta=1)
        # The stand-in has a fifth of all requests in each bucket except the first. The median is in
        # the middle of the bucket up to 0.5 s.
        self.assertEqual("median 300 ms", self.all("#plots .legend span")[4].text, legends)
        self.assertEqual("95 % 4 s", self.all("#plots .legend span")[5].text)
        self.assertEqual("in use 25 %", self.all("#plots .legend span")[8].text)
        self.assertEqual("found 25 %", self.all("#plots .legend span")[9].text)
        self.assertGreaterEqual(self.one("#plots path.line").get_attribute("d").count("L"), 3)

    def test_metrics_are_not_polled_while_hidden(self):
        self.show()
        self.wait(lambda: self.all("#plots figure"), "plots")
        self.one("#tab-chat").click()
        time.sleep(0.3)
        count = self.server.requests
        time.sleep(3)
        self.assertEqual(count, self.server.requests)

    def test_missing_model_information(self):
        for model in (None, {}, {"layers": []}, {"layers": [{}, {"gate": {}}]}, {"model": "x", "bytes": 5}):
            self.server.model, self.server.metrics = model, False
            self.driver.refresh()
            self.show()
            self.wait(lambda: "No metrics" in self.text("#live-state"), "the message")
            self.assertEqual([], self.all("#bytes .fill, #layers figure"))
        self.picture("model_unknown")
        self.one("#tab-chat").click()
        self.submit_and_wait("hello")

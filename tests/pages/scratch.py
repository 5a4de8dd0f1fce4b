"""A folder in which the commands of a page run as they are typed.

The folder holds a file or a model for each of the names that pages use (MODEL, TEXT, small, ...). The models are the
bundled one and what `compress` makes of it.
"""

import os
import pathlib
import shutil
import subprocess

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent

# Things for the names in pages. A command that reads anything else is only checked.
MODELS = ("MODEL", "MODEL_DIR", "DENSE", "DENSE_DIR", "dense", "Llama-3.2-1B", "SmolLM2")
SMALL_MODELS = ("small", "SMALL", "COMPRESSED_DIR")
TEXTS = ("TEXT", "text.txt", "some_text.txt", "a.txt", "b.txt", "train.txt")
TOOL = '{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}'
FILES = {
    "prompt.txt": "Once upon a time",
    "chat.json": '[{"role": "user", "content": "Hi"}]',
    "tools.json": f"[{TOOL}]",
    "chat.jsonl": '{"messages": [{"role": "user", "content": "Tell me a story about a cat."}]}\n' * 100,
    "alpaca.json": '[{"instruction": "Greet.", "output": "Hi."}, {"instruction": "Part.", "output": "Bye."}]',
    "profile.json": '[{"start_ts": 0, "end_ts": 900, "engine": "tensor", "opcode": "MATMUL"}]',
    "c4.jsonl": '{"text": "Once upon a time, there was a cat."}\n' * 100,
}
# The bundled model has no template, and stands for chat models, too.
CHAT_TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
# The example that stands for a kernel of the reader.
KERNEL = "examples/kernel/step3_correct.py"
KERNELS = ("kernel.py", "matmul.py")
# Bytes of the bundled texts that the texts have.
TEXT_BYTES = 8_000
# Folders of the repository that commands may read.
REPOSITORY_FOLDERS = ("bench", "examples", "python", "src", "tests", "tools")


class Scratch:
    """The folder of a page. `program` is called by its name, neuronmm, which is in the PATH."""

    def __init__(self, folder: pathlib.Path, templates: pathlib.Path, program: pathlib.Path) -> None:
        self.folder = folder
        self.templates = templates
        folder.mkdir()
        for source in templates.iterdir():
            (folder / source.name).symlink_to(source)
        (folder / ".bin").mkdir()
        (folder / ".bin" / "neuronmm").symlink_to(program.resolve())

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()

    def remove(self, name: str) -> None:
        """Removes what a command is about to write, for example the model of an earlier command of the page."""
        path = self.folder / name
        if not path.absolute().is_relative_to(self.folder) or path == self.folder:
            return
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.is_dir():
            shutil.rmtree(path)

    def original(self, name: str) -> str | None:
        """Returns the template that stands for a name, or None if a command has made the thing of this name."""
        path = (self.folder / name).resolve()
        return str(path) if path.exists() and path.is_relative_to(self.templates) else None

    def keep(self, name: str) -> pathlib.Path:
        """Moves what a command has written to a place where no later command of the page replaces it."""
        kept = self.folder / f".kept{len(list(self.folder.glob('.kept*')))}"
        (self.folder / name).rename(kept)
        (self.folder / name).symlink_to(kept)
        return kept

    def take_over(self, name: str, kept: pathlib.Path) -> None:
        self.remove(name)
        (self.folder / name).symlink_to(kept)

    def restore(self, name: str) -> None:
        """Gives a name its thing again, after a command that should have replaced it has failed."""
        self.remove(name)
        if (self.templates / name).exists():
            (self.folder / name).symlink_to(self.templates / name)

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PATH": f"{self.folder / '.bin'}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "XDG_CACHE_HOME": str(self.folder / ".cache"),
        }


def make_templates(folder: pathlib.Path, program: pathlib.Path, model: pathlib.Path) -> None:
    """Makes what the folder of each page has. `model` stands for all models, models/demo among them."""
    demo = folder / "models" / "demo"
    shutil.copytree(model, demo)
    (demo / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
    for text in demo.glob("*.txt"):
        text.write_bytes(text.read_bytes()[:TEXT_BYTES].decode("utf-8", errors="ignore").encode())
    for name in MODELS:
        (folder / name).symlink_to(demo)
    subprocess.run(
        [program, "compress", demo, "-o", folder / SMALL_MODELS[0], "--ratio", "0.2", "--method", "svd"],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for name in SMALL_MODELS[1:]:
        (folder / name).symlink_to(folder / SMALL_MODELS[0])
    for name in TEXTS:
        (folder / name).symlink_to(demo / "calibration.txt")
    for name, content in FILES.items():
        (folder / name).write_text(content, encoding="utf-8")
    (folder / "config.json").symlink_to(demo / "config.json")
    for name in KERNELS:
        (folder / name).symlink_to(REPOSITORY / KERNEL)
    for name in REPOSITORY_FOLDERS:
        (folder / name).symlink_to(REPOSITORY / name)

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
MODELS = ("MODEL", "MODEL_DIR", "DENSE", "DENSE_DIR", "dense", "Llama-3.2-1B")
SMALL_MODELS = ("small", "SMALL", "OUT_DIR", "COMPRESSED_DIR")
TEXTS = ("TEXT", "text.txt", "some_text.txt", "a.txt", "b.txt")
FILES = {
    "prompt.txt": "Once upon a time",
    "chat.json": '[{"role": "user", "content": "Hi"}]',
    "alpaca.json": '[{"instruction": "Greet.", "output": "Hi."}, {"instruction": "Part.", "output": "Bye."}]',
    "c4.jsonl": '{"text": "Once upon a time, there was a cat."}\n' * 100,
}
# Bytes of the bundled calibration text that a text has.
TEXT_BYTES = 30_000
# Folders of the repository that commands may read.
REPOSITORY_FOLDERS = ("bench", "examples", "python", "src", "tests", "tools")


class Scratch:
    """The folder of a page. `program` is called by its name, neuronmm, which is in the PATH."""

    def __init__(self, folder: pathlib.Path, templates: pathlib.Path, program: pathlib.Path) -> None:
        self.folder = folder
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

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PATH": f"{self.folder / '.bin'}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "XDG_CACHE_HOME": str(self.folder / ".cache"),
        }


def make_templates(folder: pathlib.Path, program: pathlib.Path) -> None:
    """Makes what each page's folder has. The demo model is copied, so that no command can change the original."""
    folder.mkdir()
    shutil.copytree(REPOSITORY / "models", folder / "models")
    demo = folder / "models" / "demo"
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
    text = (demo / "calibration.txt").read_bytes()[:TEXT_BYTES].decode("utf-8", errors="ignore")
    for name, content in [*((name, text) for name in TEXTS), *FILES.items()]:
        (folder / name).write_text(content, encoding="utf-8")
    for name in REPOSITORY_FOLDERS:
        (folder / name).symlink_to(REPOSITORY / name)

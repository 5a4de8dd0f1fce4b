#!/usr/bin/env python3
"""The hashes in the Content-Security-Policy of the server's web page are those of its style and script.

    page_policy.py            fails if they are not
    page_policy.py --write    renews them
"""
import base64
import hashlib
import pathlib
import re
import sys

PAGE = pathlib.Path(__file__).resolve().parents[1] / "src/serve/web/index.html"


def hash_of(page, tag):
    texts = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    if len(texts) != 1:
        sys.exit(f"{PAGE}: expected one <{tag}>, found {len(texts)}")
    digest = hashlib.sha256(texts[0].encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def with_hashes(page):
    for tag in ("script", "style"):
        page = re.sub(rf"({tag}-src )'[^']*'", lambda found: found[1] + hash_of(page, tag), page, count=1)
    return page


def main():
    page = PAGE.read_text()
    right = with_hashes(page)
    if "--write" in sys.argv:
        PAGE.write_text(right)
    elif page != right:
        sys.exit(f"{PAGE}: the policy's hashes are not those of its style and script; {sys.argv[0]} --write renews them")


if __name__ == "__main__":
    main()

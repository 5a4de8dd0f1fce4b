"""The harness's functions for WinoGrande. The "text" is the index of the right option, and the
choices are the contexts.
"""


def doc_to_text(doc):
    return int(doc["answer"]) - 1


def doc_to_choice(doc):
    begin = doc["sentence"][: doc["sentence"].index("_")]
    return [begin + doc["option1"], begin + doc["option2"]]


def doc_to_target(doc):
    return doc["sentence"][doc["sentence"].index("_") + 1 :].strip()

"""Draws templates from a grammar and compares neuronmm's text with jinja2's.

usage: random_templates.py PROGRAM COUNT [SEED]

Templates whose results cannot be compared are counted and passed over.

- Some texts contain addresses in memory.
- Some templates exceed a limit of neuronmm, such as integers of more than 64 bits.
- Some blocks produce a number instead of a text, and are left by a `break`. jinja2 notices the
  number only when it joins the texts, which never happens after the `break`.
"""

import collections
import random
import re
import sys

import oracle

CONTEXT = {
    "messages": [
        {"role": "system", "content": " Be brief.\n"},
        {"role": "user", "content": "Hi, ß Ünï 😀 e\u0301!", "n": 3},
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1, "y": [1.5, None]}}}]},
        {"role": "tool", "content": "Line one\r\nline TWO\n\n  line 3 "},
    ],
    "tools": [{"name": "b", "n": 2, "tags": ["x", "Y"]}, {"name": "A", "n": 1, "tags": []}, {"name": "a", "n": 2, "items": 5}],
    "s": "Hello World",
    "t": "<a b='1'>\"q\" & ça</a>",
    "words": "the Quick brown fox's-tail (jumped) OVER",
    "uni": "ǅenan ΑΣ ﬁne İx Straße ²½Ⅷ\u2028z\u00a0",
    "e": "",
    "digits": "42",
    "floats": " -12.50e1 ",
    "n": 7,
    "m": -3,
    "z": 0,
    "f": 2.5,
    "g": -1e-07,
    "h": 1e16,
    "yes": True,
    "no": False,
    "nothing": None,
    "xs": [3, 1, 2, 3],
    "ss": ["b", "A", "c", "a", "B"],
    "mixed": [1, "1", 1.0, True, None, [1], {"k": 1}],
    "nested": [[1, 2], [3, 4], [5, 6]],
    "d": {"b": 2, "a": 1, "C": 3, "items": "shadow", "k l": [1]},
    "empty": {},
    "el": [],
}
NAMES = list(CONTEXT) + ["missing", "u1", "loop"]
ATTRIBUTES = ["role", "content", "name", "n", "a", "b", "items", "keys", "tool_calls", "missing", "x", "upper", "pop", "append", "__class__", "_p", "count", "0"]
STRINGS = ["a", "b", "", " ", "l", "x y", "\\n", "ß", "%s", "é", "World", "o", "-", "😀", "{}", "{0} {1}", "%d|%5.1f", "1", "name", "n", "{:>8}", "\\'", "a,b,c", "\\t", "\\x41", "\\u00e9", "\\q"]
TESTS0 = "defined undefined none string mapping iterable sequence number integer float boolean true false odd even lower upper callable".split()
TESTS1 = "divisibleby equalto eq ne lt gt le ge sameas in == != < >= greaterthan lessthan".split()
FILTERS0 = "trim length count upper lower first last list string int float abs round reverse sort unique dictsort items capitalize title sum min max tojson default d escape e safe wordcount".split()
METHODS = [
    "strip()", "strip({s})", "lstrip()", "rstrip()", "lstrip({s})", "rstrip({s})", "split()", "split({s})", "split({s}, {i})", "rsplit({s}, {i})",
    "rsplit(None, {i})", "split(None, {i})", "splitlines()", "splitlines(true)", "startswith({s})", "endswith({s})", "startswith(({s}, {s}))",
    "replace({s}, {s})", "replace({s}, {s}, {i})", "upper()", "lower()", "title()", "capitalize()", "swapcase()", "casefold()", "join({e})",
    "find({s})", "find({s}, {i})", "rfind({s})", "index({s})", "count({s})", "count({s}, {i}, {i})", "isdigit()", "isalpha()", "isalnum()", "isspace()", "isupper()",
    "islower()", "istitle()", "isnumeric()", "isdecimal()", "isidentifier()", "isprintable()", "isascii()", "zfill({i})", "center({i})", "center({i}, '*')", "ljust({i})", "rjust({i}, 'é')",
    "format({e})", "format({e}, {e})", "partition({s})", "rpartition({s})", "removeprefix({s})", "removesuffix({s})", "expandtabs({i})",
    "items()", "keys()", "values()", "get({s})", "get({s}, {e})", "index({e})", "count({e})", "copy()",
]
FILTERS = [
    "default({e})", "default({e}, true)", "d({e}, boolean={e})", "trim({s})", "join({s})", "join({s}, attribute={s})", "join(d={s})", "replace({s}, {s})", "replace({s}, {s}, {i})",
    "indent({i})", "indent({i}, true)", "indent({s}, blank=true)", "indent(first=true)", "tojson(indent={i})", "tojson(separators=(',', ':'))", "tojson(sort_keys=true)", "tojson(ensure_ascii=true)",
    "tojson(indent={i}, sort_keys=true, ensure_ascii=true)", "selectattr({s})", "selectattr({s}, 'equalto', {e})", "rejectattr({s})", "rejectattr({s}, {tn})", "select({tn})", "select({t1}, {e})", "reject({tn})",
    "reject({t1}, {e})", "map('upper')", "map({fn})", "map('default', {e})", "map(attribute={s})", "map(attribute={s}, default={e})", "map('replace', {s}, {s})", "sort(reverse=true)", "sort(attribute={s})",
    "sort(case_sensitive=true)", "unique(attribute={s})", "unique(true)", "dictsort(by='value')", "dictsort(reverse=true)", "dictsort(true)", "batch({i})", "batch({i}, {e})", "slice({i})", "slice({i}, {e})",
    "round({i})", "round({i}, 'floor')", "round(1, 'ceil')", "int({e})", "int(0, {i})", "float({e})", "sum(start={e})", "sum(attribute={s})", "min(attribute={s})", "max(true)", "groupby({s})", "center({i})",
    "truncate({i})", "truncate({i}, true)", "truncate({i}, end={s})", "format({e})", "format({e}, {e})", "attr({s})", "wordcount", "map(attribute={s}) | list", "list", "length", "selectattr({s}, 'defined') | list", "batch({i}) | list",
    "slice({i}) | list", "unique | list", "reverse | list", "items | list", "groupby({s}) | list",
]
OPERATORS = "+ - * / // % ** ~ + ~ + ~".split()
COMPARISONS = ["==", "!=", "<", "<=", ">", ">=", "in", "not in"]


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.in_loop = 0
        self.macros = []

    def pick(self, options):
        return self.random.choice(options)

    def chance(self, p):
        return self.random.random() < p

    def string(self):
        if self.chance(0.85):
            text = self.pick(STRINGS)
            return f'"{text}"' if self.chance(0.5) and '"' not in text else f"'{text}'"
        return self.expression(2)

    def fill(self, pattern, depth):
        makers = {
            "s": self.string,
            "i": lambda: str(self.random.randint(-2, 6)) if self.chance(0.85) else self.expression(depth),
            "e": lambda: self.expression(depth),
            "tn": lambda: repr(self.pick(TESTS0)),
            "t1": lambda: repr(self.pick(TESTS1)),
            "fn": lambda: repr(self.pick(FILTERS0)),
        }
        return re.sub(r"\{(s|i|e|tn|t1|fn)\}", lambda match: makers[match[1]](), pattern)

    def literal(self):
        return self.pick([
            lambda: str(self.random.randint(-3, 12)),
            lambda: self.pick(["0.5", "1e3", "2.0", "1_000", "0x1f", "1.25e-3", "100000000000000000.0"]),
            lambda: self.pick(["true", "false", "none", "True", "None"]),
            self.string,
            lambda: "[" + ", ".join(self.expression(1) for _ in range(self.random.randint(0, 3))) + "]",
            lambda: "(" + ", ".join(self.expression(1) for _ in range(self.random.randint(0, 3))) + ",)" if self.chance(0.5) else "()",
            lambda: "{" + ", ".join(f"{self.string()}: {self.expression(1)}" for _ in range(self.random.randint(0, 2))) + "}",
            lambda: f"range({self.random.randint(-1, 5)})",
            lambda: f"range({self.random.randint(-1, 5)}, {self.random.randint(-3, 9)}, {self.random.randint(-3, 3)})",
        ])()

    def name(self):
        if self.in_loop and self.chance(0.15):
            return "loop." + self.pick("index index0 first last length revindex revindex0 previtem nextitem depth cycle('a',2) changed(n)".split())
        return self.pick(NAMES)

    def expression(self, depth):
        """Returns a random expression.

        Most expressions have suitable types. A few have arbitrary types, because errors must agree,
        too.
        """
        if self.chance(0.06):
            return self.wild(depth)
        return self.pick([self.text_expression, self.text_expression, self.number, self.list, self.dict, self.truth])(depth)

    def text_expression(self, depth):
        if depth <= 0 or self.chance(0.1):
            return self.pick(["s", "t", "words", "uni", "e", "digits", "floats", "messages[1].content", "messages[3]['content']", "messages[0].role", "ss[1]", "tools[0].name", self.quoted()])
        text, deeper = (lambda: self.text_expression(depth - 1)), depth - 1
        atom = lambda: f"({text()})" if self.chance(0.6) else self.text_expression(0)  # noqa: E731
        count = lambda: self.number(0) if self.chance(0.3) else str(self.random.randint(-2, 9))  # noqa: E731
        return self.pick([
            lambda: f"{atom()} {self.pick('+~')} {atom()}",
            lambda: f"{atom()} ~ {self.expression(deeper)}",
            lambda: f"{atom()}[{self.bound()}:{self.bound()}]",
            lambda: f"{atom()}[{self.bound()}:{self.bound()}:{self.pick(['-1', '2', '-2', '3'])}]",
            lambda: f"{atom()}[{self.random.randint(-2, 2)}]",
            lambda: f"{atom()}.{self.pick(['strip', 'lstrip', 'rstrip', 'upper', 'lower', 'title', 'capitalize', 'swapcase', 'casefold'])}()",
            lambda: f"{atom()}.{self.pick(['strip', 'lstrip', 'rstrip', 'removeprefix', 'removesuffix'])}({self.quoted()})",
            lambda: f"{atom()}.replace({self.quoted()}, {self.quoted()}{self.pick(['', ', 1', ', 2'])})",
            lambda: f"{atom()}.{self.pick(['zfill', 'center', 'ljust', 'rjust', 'expandtabs'])}({self.random.randint(-2, 30)})",
            lambda: f"{atom()} | {self.pick(['trim', 'upper', 'lower', 'title', 'capitalize', 'reverse', 'string', 'e', 'safe', 'forceescape', 'tojson', 'default(1)', 'indent', 'first', 'last', 'length', 'wordcount'])}",
            lambda: f"{atom()} | {self.pick(['trim', 'join'])}({self.quoted()})",
            lambda: f"{atom()} | replace({self.quoted()}, {self.quoted()}{self.pick(['', ', 1', ', count=2'])})",
            lambda: f"{atom()} | indent({self.pick([str(self.random.randint(0, 5)), self.quoted()])}{self.pick(['', ', true', ', blank=true', ', true, true'])})",
            lambda: f"{atom()} | {self.pick(['truncate(8)', 'truncate(9, true)', 'truncate(6, end=`é`, leeway=0)', 'center(20)', 'truncate(3, true, ``)']).replace('`', chr(39))}",
            lambda: f"{self.expression(deeper)} | tojson({self.pick(['', 'indent=2', 'indent=0', 'sort_keys=true', 'ensure_ascii=true', 'separators=[`,`, `:`]', 'indent=`>`', 'true, 1']).replace('`', chr(39))})",
            lambda: f"{self.expression(deeper)} | string",
            lambda: f"{self.list(deeper)} | join({self.quoted()})",
            lambda: f"{self.quoted()}.join(ss)",
            lambda: f"({text()} if {self.truth(deeper)} else {text()})",
            lambda: f"'{self.pick(['%s', '%r', '%5s|', '%-7s|', '%.2s', '%%%s'])}' % ({self.expression(deeper)},)",
            lambda: f"'{self.pick(['%d', '%5d', '%-5d|', '%05d', '%+d', '%x', '%#X', '%o', '%.1f', '%8.3f', '%e', '%g', '%G', '% d', '%.0f', '%c'])}' % {self.number(0)}",
            lambda: f"'{self.pick(['%s and %r', '%s%%%s', '%2$s'])}' | format({self.expression(deeper)}, {self.expression(0)})",
            lambda: f"'{self.pick(['{}{}', '{1}{0}', '{0!r} {1!s}', '{{{}}} {}', '{:>9}|{:^7}', '{:*<6}{}', '{0[0]}{1}', '{:.3}{}'])}'.format({text()}, {text()})",
            lambda: f"'{self.pick(['{:d}', '{:5}|', '{:05d}', '{:,}', '{:+}', '{:x}', '{:#b}', '{:.2f}', '{:8.1f}', '{:e}', '{:g}', '{:%}', '{:_}', '{:<5}|', '{:^+7.1f}', '{:.3}', '{:=8}'])}'.format({self.number(0)})",
            lambda: f"({text()} or {text()})",
            lambda: f"({text()} and {text()})",
            lambda: f"{atom()} * {self.random.randint(-1, 3)}",
            self.macro_call if self.macros else text,
            lambda: f"{self.pick(['d', 'messages[1]', 'tools[0]'])}.{self.pick(['role', 'content', 'name', 'a'])}",
            lambda: f"{self.name()} | default({text()}{self.pick(['', ', true'])})",
        ])()

    def quoted(self):
        return "'" + self.pick([text for text in STRINGS if text not in ("\\'",)]) + "'"

    def number(self, depth):
        if depth <= 0 or self.chance(0.15):
            return self.pick(["n", "m", "z", "f", "g", "h", "xs[0]", "yes", str(self.random.randint(-9, 40)), "0.5", "1e3", "2.5", "-1.5", "3.14159", "1e22", "123456.789"])
        number = lambda: f"({self.number(depth - 1)})"  # noqa: E731
        return self.pick([
            lambda: f"{number()} {self.pick('+-*')} {number()}",
            lambda: f"{number()} {self.pick(['//', '%', '/'])} {self.pick(['n', 'm', '2', '-3', '2.5', '0.1', 'f'])}",
            lambda: f"{self.pick(['n', 'm', '2', '1.5'])} ** {self.random.randint(-2, 4)}",
            lambda: f"{self.pick('-+')}{number()}",
            lambda: f"{number()} | {self.pick(['abs', 'int', 'float', 'round', 'round(1)', 'round(2)', 'round(-1)', 'round(1, `floor`)', 'round(0, `ceil`)']).replace('`', chr(39))}",
            lambda: f"({self.text_expression(depth - 1)}) | {self.pick(['length', 'count', 'wordcount', 'int', 'float', 'int(7)', 'float(0.5)', 'int(0, 16)'])}",
            lambda: f"({self.text_expression(depth - 1)}).{self.pick(['find', 'rfind', 'count'])}({self.quoted()}{self.pick(['', ', 2', ', -3', ', 1, 5'])})",
            lambda: f"({self.list(depth - 1)}) | {self.pick(['length', 'count'])}",
            lambda: f"xs | {self.pick(['sum', 'min', 'max', 'sum(start=2)', 'first', 'last'])}",
            lambda: f"tools | sum('n')",
            lambda: f"({self.number(depth - 1)} if {self.truth(depth - 1)} else {self.number(depth - 1)})",
            lambda: f"loop.{self.pick(['index', 'index0', 'length', 'revindex', 'revindex0', 'depth'])}" if self.in_loop else "n",
        ])()

    def list(self, depth):
        if depth <= 0 or self.chance(0.1):
            return self.pick(["xs", "ss", "mixed", "nested", "tools", "messages", "el", "words.split()", "[1, 'a']", "(1, 2)", "[n, s]", "range(4)", "messages[3].content.splitlines()"])
        items = lambda: self.list(depth - 1)  # noqa: E731
        quotes = lambda text: text.replace("`", "'")  # noqa: E731
        return self.pick([
            lambda: f"({items()})[{self.bound()}:{self.bound()}]",
            lambda: f"({items()})[{self.bound()}:{self.bound()}:{self.pick(['-1', '2', '-2'])}]",
            lambda: f"{self.text_expression(depth - 1)} | list",
            lambda: f"({self.text_expression(depth - 1)}).{self.pick(['split', 'rsplit'])}({self.pick(['', self.quoted(), self.quoted() + ', 1', 'none, 2', 'maxsplit=1'])})",
            lambda: f"({self.text_expression(depth - 1)}).{self.pick(['splitlines()', 'splitlines(true)', 'partition(`o`)', 'rpartition(`l`)']).replace('`', chr(39))}",
            lambda: "[" + ", ".join(self.expression(depth - 1) for _ in range(self.random.randint(0, 3))) + "]",
            lambda: f"{items()} | {self.pick(['list', 'reverse | list', 'unique | list', 'batch(2) | list', 'batch(3, 0) | list', 'slice(2) | list', 'slice(3, `x`) | list', 'select | list', 'reject | list']).replace('`', chr(39))}",
            lambda: quotes(f"{items()} | {self.pick(['select', 'reject'])}(`{self.pick(['string', 'number', 'defined', 'mapping', 'none', 'integer', 'iterable', 'sequence', 'boolean'])}`) | list"),
            lambda: quotes(f"ss | {self.pick(['sort', 'sort(true)', 'sort(case_sensitive=true)', 'map(`upper`) | list', 'map(`replace`, `a`, `b`) | list', 'select(`in`, [`a`, `b`]) | list', 'reject(`equalto`, `c`) | list', 'unique(true) | list', 'map(`length`) | list', 'select(`lower`) | list'])}"),
            lambda: quotes(f"tools | {self.pick(['sort(attribute=`name`)', 'sort(attribute=`n,name`)', 'map(attribute=`name`) | list', 'map(attribute=`tags.0`, default=`-`) | list', 'selectattr(`n`, `equalto`, 2) | list', 'rejectattr(`tags`) | list', 'selectattr(`n`, `gt`, 1) | map(attribute=`name`) | list', 'groupby(`n`) | list', 'unique(attribute=`n`) | list', 'selectattr(`zzz`, `undefined`) | list', 'groupby(`name`)', 'map(attribute=`items`, default=3) | list'])}"),
            lambda: quotes(f"messages | {self.pick(['map(attribute=`role`) | list', 'selectattr(`role`, `in`, [`user`, `tool`]) | list', 'rejectattr(`content`) | list', 'selectattr(`tool_calls`, `defined`) | list', 'map(attribute=`content`) | map(`trim`) | list', 'selectattr(`role`, `ne`, `user`) | map(attribute=`role`) | join(`,`) | list'])}"),
            lambda: f"xs | {self.pick(['sort', 'sort(reverse=true)', 'unique | list', 'select(`odd`) | list', 'select(`divisibleby`, 3) | list', 'reject(`gt`, 2) | list', 'map(`string`) | list']).replace('`', chr(39))}",
            lambda: f"{self.dict(0)} | {self.pick(['list', 'items | list', 'length', 'tojson'])}",
            lambda: f"d | {self.pick(['dictsort', 'dictsort(true)', 'dictsort(reverse=true)'])}",
            lambda: f"{self.dict(0)}.{self.pick(['keys()', 'values()', 'items()'])} | list",
            lambda: f"{self.dict(0)}.{self.pick(['keys()', 'values()', 'items()'])}",
            lambda: "xs + [1]",
            lambda: f"xs * {self.random.randint(-1, 2)}",
        ])()

    def dict(self, depth):
        if depth <= 0 or self.chance(0.4):
            return self.pick(["d", "empty", "tools[0]", "messages[1]", "{'a': 1, 'b': 'x'}", "{1: 2, true: 3, 'k': none}", "dict(a=1, b=s)", "tools[1]"])
        return self.pick([
            lambda: "{" + ", ".join(f"{self.quoted()}: {self.expression(depth - 1)}" for _ in range(self.random.randint(0, 3))) + "}",
            lambda: f"dict({self.dict(depth - 1)}, q={self.expression(depth - 1)})",
            lambda: f"{self.dict(depth - 1)}.copy()",
            lambda: f"{self.dict(depth - 1)}.get({self.quoted()}, {self.dict(0)})",
        ])()

    def truth(self, depth):
        if depth <= 0 or self.chance(0.1):
            return self.pick(["yes", "no", "true", "false", "nothing", "missing", "e", "el", "loop.first" if self.in_loop else "n", "loop.last" if self.in_loop else "s"])
        return self.pick([
            lambda: f"{self.expression(depth - 1)} {self.pick(['==', '!='])} {self.expression(depth - 1)}",
            lambda: f"({self.number(depth - 1)}) {self.pick(['<', '<=', '>', '>='])} ({self.number(depth - 1)})",
            lambda: f"({self.text_expression(depth - 1)}) {self.pick(['<', '<=', '>', '>=', 'in', 'not in'])} ({self.text_expression(depth - 1)})",
            lambda: f"({self.expression(depth - 1)}) {self.pick(['in', 'not in'])} ({self.list(depth - 1)})",
            lambda: f"{self.quoted()} in {self.dict(depth - 1)}",
            lambda: f"({self.expression(depth - 1)}) is {self.pick(['', 'not '])}{self.pick([test for test in TESTS0 if test not in ('odd', 'even')])}",
            lambda: f"({self.name()}) is {self.pick(['defined', 'undefined', 'none', 'string'])}",
            lambda: f"({self.number(depth - 1)}) is {self.pick(['odd', 'even', 'divisibleby 3', 'divisibleby(2)', 'gt 2', 'lt(n)', 'eq 7'])}",
            lambda: f"({self.expression(depth - 1)}) is {self.pick(['eq', 'ne', 'sameas', 'equalto'])}({self.pick(['n', 'none', 'true', 'xs'])})",
            lambda: f"({self.expression(depth - 1)}) is in ({self.list(depth - 1)},)",
            lambda: f"({self.text_expression(depth - 1)}).{self.pick(['startswith', 'endswith'])}({self.quoted()})",
            lambda: f"({self.text_expression(depth - 1)}).{self.pick(['isdigit', 'isalpha', 'isalnum', 'isspace', 'isupper', 'islower', 'istitle', 'isnumeric', 'isdecimal', 'isidentifier', 'isprintable', 'isascii'])}()",
            lambda: f"not {self.truth(depth - 1)}",
            lambda: f"({self.truth(depth - 1)} {self.pick(['and', 'or'])} {self.truth(depth - 1)})",
            lambda: f"{self.number(0)} < {self.number(0)} {self.pick(['<', '==', '>='])} {self.number(0)}",
        ])()

    def wild(self, depth):
        if depth <= 0:
            return self.name() if self.chance(0.65) else self.literal()
        inner = lambda: self.expression(depth - 1)  # noqa: E731
        parens = lambda: f"({inner()})" if self.chance(0.4) else inner()  # noqa: E731
        return self.pick([
            inner,
            self.name,
            lambda: f"{parens()}.{self.pick(ATTRIBUTES)}",
            lambda: f"{parens()}[{self.string()}]",
            lambda: f"{parens()}[{self.random.randint(-4, 4)}]",
            lambda: f"{self.name()}[{self.bound()}:{self.bound()}]",
            lambda: f"{self.name()}[{self.bound()}:{self.bound()}:{self.bound()}]",
            lambda: f"{parens()}.{self.fill(self.pick(METHODS), depth - 2)}",
            lambda: f"({inner()}).{self.fill(self.pick(METHODS), depth - 2)}",
            lambda: f"{self.pick(['s', 't', 'words', 'uni', 'messages[1].content', 'messages[3].content'])}.{self.fill(self.pick(METHODS), depth - 2)}",
            lambda: f"{parens()} | {self.pick(FILTERS0)}",
            lambda: f"{parens()} | {self.fill(self.pick(FILTERS), depth - 2)}",
            lambda: f"{self.pick(['messages', 'tools', 'xs', 'ss', 'd', 'words', 'nested', 'uni'])} | {self.fill(self.pick(FILTERS), depth - 2)}",
            lambda: f"{parens()} {self.pick(OPERATORS)} {parens()}",
            lambda: f"{parens()} {self.pick(COMPARISONS)} {parens()}",
            lambda: f"{parens()} {self.pick(COMPARISONS)} {parens()} {self.pick(COMPARISONS)} {parens()}",
            lambda: f"{parens()} {self.pick(['and', 'or'])} {parens()}",
            lambda: f"not {inner()}",
            lambda: f"{self.pick('+-')}{parens()}",
            lambda: f"{parens()} is {self.pick(['', 'not '])}{self.pick(TESTS0)}",
            lambda: f"{parens()} is {self.pick(['', 'not '])}{self.pick(TESTS1[:10])}({inner()})",
            lambda: f"({inner()} if {inner()} else {inner()})",
            lambda: f"({inner()} if {inner()})",
            lambda: f"'{self.pick(['%s', '%r|%5s', '%d', '%.2f', '%05d', '%x', '%s %s', '%%', '%-6s|', '%+d', '%e', '%g', '%c'])}' % {parens()}",
            lambda: f"dict({self.pick(['', 'd, '])}q={inner()})",
            self.macro_call,
        ])()

    def macro_call(self):
        if not self.macros:
            return self.name()
        return f"{self.pick(self.macros)}({self.pick(['', self.expression(1), 'p=1', 'q=' + self.expression(1), '1, 2', '*xs', '**d', '1, p=2'])})"

    def bound(self):
        return self.pick(["", "", str(self.random.randint(-3, 4)), "n", "none"])

    def signs(self):
        return self.pick(["", "", "", "-", "+"]), self.pick(["", "", "", "-"])

    def tag(self, text):
        left, right = self.signs()
        return "{%" + left + self.pick([" ", ""]) + text + " " + (self.pick([right, "+"]) if self.chance(0.2) else right) + "%}"

    def output(self, depth):
        left, right = self.signs()
        return "{{" + left + " " + self.expression(depth) + " " + right + "}}"

    def text(self):
        return self.pick(["", " ", "\n", "\n  ", "text", "a\n\n", "  \t", "é\r\n", "{ ", "}}", "x {# note #} y", "{#- c -#}", "\n  {# c #}\n", "{% raw %} {{ x }} {% endraw %}", "  {%- raw -%} {% z %}\n {%- endraw %}\n"])

    def body(self, depth):
        return "".join(self.statement(depth) for _ in range(self.random.randint(1, 3)))

    def statement(self, depth):
        if depth <= 0:
            return self.text() + self.output(self.random.randint(0, 3)) + self.text()
        return self.text() + self.pick([
            lambda: self.output(self.random.randint(1, 4)),
            lambda: self.output(self.random.randint(1, 3)),
            lambda: self.set(depth),
            lambda: self.set(depth),
            lambda: self.loop(depth),
            lambda: self.loop(depth),
            lambda: self.condition(depth),
            lambda: self.condition(depth),
            lambda: self.macro(depth),
            lambda: self.block("filter " + self.fill(self.pick(["upper", "trim", "indent({i})", "replace({s}, {s})", "length", "trim | title"]), 1), "endfilter", depth),
            lambda: self.block("with " + self.pick(["v = n", "s = e, n = s", "u1 = " + self.expression(1)]), "endwith", depth),
            lambda: self.generation(depth),
            lambda: self.call(depth),
            lambda: self.jump(),
        ])() + self.text()

    def set(self, depth):
        target = self.pick(["u1", "u1", "s", "n", "d", "xs", "u1, u2", "ns.a", "(n, u1)"])
        kind = self.random.random()
        if kind < 0.25 and target != "ns.a":
            name = target.split(",")[0].strip("(")
            return self.tag(f"set {name}{self.pick(['', ' | upper', ' | trim | length'])}") + self.body(depth - 1) + self.tag("endset")
        if target == "ns.a" or kind > 0.9:
            return self.tag("set ns = namespace(a=1, b=n)") + self.pick([self.tag("set ns.a = " + self.expression(2)), self.loop(1, "{% set ns.a = ns.a ~ 1 %}")]) + "{{ ns.a }}"
        value = "n, s" if "," in target else self.expression(self.random.randint(0, 3))
        return self.tag(f"set {target} = {value}")

    def loop(self, depth, extra=""):
        target = self.pick(["i", "i", "x", "s", "k, v", "m"])
        source = {"k, v": self.pick(["d.items()", "d | dictsort", "nested", "d | items", "messages[1].items()"])}.get(
            target, self.pick(["messages", "tools", "xs", "ss", "s", "range(3)", "d", "el", "nested", self.expression(2), "xs | reverse", "messages | selectattr('role')"]))
        head = f"for {target} in {source}" + (f" if {self.expression(1)}" if self.chance(0.2) else "")
        self.in_loop += 1
        body = self.body(depth - 1) + self.pick(["{{ " + target + " }}", "", "{{ loop.index }}"]) + extra
        self.in_loop -= 1
        otherwise = self.tag("else") + self.body(depth - 1) if self.chance(0.25) else ""
        return self.tag(head) + body + otherwise + self.tag("endfor")

    def condition(self, depth):
        text = self.tag("if " + self.expression(2)) + self.body(depth - 1)
        while self.chance(0.25):
            text += self.tag("elif " + self.expression(2)) + self.body(depth - 1)
        if self.chance(0.4):
            text += self.tag("else") + self.body(depth - 1)
        return text + self.tag("endif")

    def macro(self, depth):
        name = self.pick(["f1", "f2"])
        parameters = self.pick(["", "p", "p, q", "p=1", "p, q=" + self.expression(1), "p=n, q=p"])
        saved, self.in_loop = self.in_loop, 0
        text = self.tag(f"macro {name}({parameters})") + self.body(depth - 1) + self.pick(["{{ p }}", "{{ q }}{{ p }}", "{{ varargs }}", "{{ kwargs }}", "{{ caller() }}", "{{ s }}"]) + self.tag("endmacro")
        self.in_loop = saved
        self.macros.append(name)
        return text + ("{{ " + self.macro_call() + " }}" if self.chance(0.7) else "")

    def call(self, depth):
        if not self.macros:
            return self.text()
        saved, self.in_loop = self.in_loop, 0
        text = self.tag("call " + self.pick(self.macros) + "(" + self.pick(["", "1", "p=2"]) + ")") + self.body(depth - 1) + self.tag("endcall")
        self.in_loop = saved
        return text

    def generation(self, depth):
        saved, self.in_loop = self.in_loop, 0
        text = self.block("generation", "endgeneration", depth)
        self.in_loop = saved
        return text

    def block(self, head, end, depth):
        return self.tag(head) + self.body(depth - 1) + self.tag(end)

    def jump(self):
        if not self.in_loop and self.chance(0.95):
            return ""
        return "{% if " + self.expression(1) + " %}" + self.tag(self.pick(["break", "continue"])) + "{% endif %}"

    def template(self):
        return self.body(self.random.randint(1, 3))


def incomparable(text, our_error):
    return (text is not None and re.search(r"at\s0x[0-9a-f]+|<jinja2|<Macro|<Cycler|<bound|<built-in|<function|<class|TemplateDict|generator.object|loopcontext", text, re.I)) or (
        our_error is not None and re.search(r"64 bits|that chat templates use|too long|complex number|more than \d+|nested deeper", our_error)) or (
        text is not None and our_error is not None and "a block to make a text" in our_error)


def main():
    ours = oracle.Ours(sys.argv[1])
    count = int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    counts = collections.Counter()
    for i in range(count):
        template = Generator(f"{seed}:{i}").template()
        text, error = oracle.expected(template, CONTEXT)
        our_text, our_error = ours.render(template, CONTEXT)
        if incomparable(text, our_error):
            counts["passed over"] += 1
            continue
        counts["texts" if text is not None else "errors"] += 1
        if text != our_text:
            counts["different"] += 1
            if counts["different"] <= 10:
                print(f"--- {i}: {template!r}\n  jinja2: {text!r} {error}\n  ours:   {our_text!r} {our_error}")
    print(dict(counts))
    return 1 if counts["different"] or not counts["texts"] else 0


if __name__ == "__main__":
    sys.exit(main())

"""Makes wrong variants of a kernel's source by rule.

Each rule yields variants as (what was changed, text). The rules stand for the mistakes that people
make: a wrong index, a wrong scale or operator, a store that is missing in part or in whole, a wrong
accumulation, two names for one buffer, and a missing barrier between cores.
"""

from __future__ import annotations

import ast
import copy
import random

RULES = ("index", "scale", "store", "accumulation", "alias", "barrier")
_MOVES = {"dma_copy", "store", "tensor_copy", "dma_transpose", "activation", "tensor_tensor", "tensor_scalar", "copy",
          "nc_transpose", "activation_reduce", "tensor_reduce", "scalar_tensor_tensor", "reciprocal", "affine_select"}  # fmt: skip
_OPERATORS = {"add": "subtract", "subtract": "add", "multiply": "add", "maximum": "minimum", "minimum": "maximum", "exp": "sigmoid",
              "square": "copy", "rsqrt": "sqrt", "silu": "relu", "max": "min", "sum": "max", "greater_equal": "greater"}  # fmt: skip
_BINARY = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult}


def variants(text: str, kernel: str, seed: int):
    """Yields (rule, change, source) for every place where a rule applies. The rules take turns, and
    the places of a rule are in random order.
    """
    tree = ast.parse(text)
    # Other kernels of the file stay as they are, and are left out unless this one calls them.
    called = {n.id for n in ast.walk(_function(tree, kernel)) if isinstance(n, ast.Name)} | {kernel}
    tree.body = [n for n in tree.body if not isinstance(n, ast.FunctionDef) or n.name in called or not n.decorator_list]
    chance = random.Random(seed)
    places = {rule: list(_GENERATORS[rule](_function(tree, kernel))) for rule in RULES}
    for found in places.values():
        chance.shuffle(found)
    while any(places.values()):
        for rule in RULES:
            if places[rule]:
                number, edit, line, what = places[rule].pop()
                yield rule, f"line {line}: {what}", _changed(tree, kernel, number, edit)


def _function(tree, kernel):
    return next(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == kernel)


def _changed(tree, kernel, number, edit):
    """Returns the source with the node of this number (in the order of ast.walk) edited."""
    other = copy.deepcopy(tree)
    function = _function(other, kernel)
    node = list(ast.walk(function))[number]
    replaced = edit(node)
    if replaced is not None and replaced is not node:
        _Replacer(node, replaced).visit(function)
    return ast.unparse(ast.fix_missing_locations(other)) + "\n"


class _Replacer(ast.NodeTransformer):
    def __init__(self, old, new):
        self.old, self.new = old, new

    def visit(self, node):
        return self.new if node is self.old else self.generic_visit(node)


def _calls(function):
    for number, node in enumerate(ast.walk(function)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield number, node, node.func.attr


def _index(function):
    """Moves one bound or index by one, replaces a loop's variable by 0, or exchanges two indices."""
    numbers = {id(node): number for number, node in enumerate(ast.walk(function))}
    for node in ast.walk(function):
        places = []
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load | ast.Store) and not _is_shape(node.value):
            places = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "ds":
            places = node.args[:1]
        for place in places:
            starts = [place.lower] if isinstance(place, ast.Slice) and place.lower is not None else [] if isinstance(place, ast.Slice) else [place]
            for start in starts:
                for name in (n for n in ast.walk(start) if isinstance(n, ast.Name)):
                    yield numbers[id(name)], _to_zero, name.lineno, f"0 in place of {name.id}"
            if isinstance(place, ast.Slice) and place.lower is not None and place.upper is not None and place.step is None:
                yield numbers[id(place)], _shifted, node.lineno, f"{ast.unparse(place)} moved by one"
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) and len(node.slice.elts) == 2 and not _is_shape(node.value):
            if ast.dump(node.slice.elts[0]) != ast.dump(node.slice.elts[1]):
                yield numbers[id(node)], _exchanged, node.lineno, f"{ast.unparse(node)} with its indices exchanged"


def _is_shape(node):
    return isinstance(node, ast.Attribute) and node.attr == "shape"


def _to_zero(name):
    return ast.Constant(0)


def _shifted(piece):
    return ast.Slice(_plus_one(piece.lower), _plus_one(piece.upper), piece.step)


def _plus_one(node):
    return ast.BinOp(node, ast.Add(), ast.Constant(1))


def _exchanged(node):
    node.slice.elts.reverse()


def _scale(function):
    """Changes a number by 2 %, or an operator."""
    for number, node in enumerate(ast.walk(function)):
        if isinstance(node, ast.Constant) and isinstance(node.value, float) and node.value:
            yield number, lambda n: ast.Constant(n.value * 1.02), node.lineno, f"{node.value} becomes 2 % larger"
        if isinstance(node, ast.Attribute) and node.attr in _OPERATORS and isinstance(node.value, ast.Name):
            yield number, _other_operator, node.lineno, f"{_OPERATORS[node.attr]} in place of {node.attr}"
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY and _is_of_tiles(node):
            yield number, _other_sign, node.lineno, f"another sign in {ast.unparse(node)}"
    for number, node, name in _calls(function):
        if name == "tensor_copy" and {"dst", "src"} <= set(_given(node)):
            yield number, _scaled_copy, node.lineno, "the copy multiplies by 1.02"


def _is_of_tiles(node):
    """Returns whether a sum is not one of indices. Tiles stand outside of subscripts and ranges."""
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return bool(names & {"x", "y", "tile", "top", "powers", "total", "mean", "root"})


def _other_operator(node):
    node.attr = _OPERATORS[node.attr]


def _other_sign(node):
    node.op = _BINARY[type(node.op)]()


def _given(node):
    """Returns the arguments of a copy by name."""
    return dict(zip(("dst", "src"), node.args)) | {k.arg: k.value for k in node.keywords}


def _scaled_copy(node):
    values = _given(node)
    made = ast.parse(f"{ast.unparse(node.func.value)}.activation(op=nl.copy, scale=1.02)", mode="eval").body
    made.keywords += [ast.keyword("dst", values["dst"]), ast.keyword("data", values["src"])]
    return made


def _store(function):
    """Leaves out a statement that writes a tensor, in whole or in the last iteration of a loop."""
    for number, node in enumerate(ast.walk(function)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and getattr(node.value.func, "attr", "") in _MOVES:
            yield number, lambda n: ast.Pass(), node.lineno, f"without {ast.unparse(node.value.func)}"
        if isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and len(node.iter.args) == 1:
            yield number, _shorter, node.lineno, "the loop without its last iteration"


def _shorter(loop):
    loop.iter.args[0] = ast.BinOp(loop.iter.args[0], ast.Sub(), ast.Constant(1))


def _accumulation(function):
    """Begins a sum anew where it goes on, or goes on where it begins; replaces what a sum begins with."""
    for number, node, name in _calls(function):
        if name == "nc_matmul":
            given = [k for k in node.keywords if k.arg == "accumulate"]
            for value in ("False", "True"):
                if not given or ast.unparse(given[0].value) != value:
                    yield number, _accumulating(value), node.lineno, f"accumulate={value}"
        if name == "memset":
            yield number, _other_fill, node.lineno, "memset writes another number"
        if name in ("activation_reduce", "tensor_tensor_scan", "tensor_reduce"):
            yield number, _other_reduction, node.lineno, "another reduction"
    for number, node in enumerate(ast.walk(function)):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            yield number, lambda n: ast.Assign([_subscripted(n.target)], n.value), node.lineno, "= in place of +="


def _subscripted(target):
    """`total += x` with a tile writes into it, so that the assignment has to as well."""
    if isinstance(target, ast.Name):
        return ast.Subscript(ast.Name(target.id, ast.Load()), ast.Constant(...), ast.Store())
    return target


def _accumulating(value):
    def edit(node):
        node.keywords = [k for k in node.keywords if k.arg != "accumulate"]
        node.keywords.append(ast.keyword("accumulate", ast.parse(value, mode="eval").body))

    return edit


def _other_fill(node):
    for i, argument in enumerate(node.args):
        if isinstance(argument, ast.Constant):
            node.args[i] = ast.Constant(argument.value + 0.5)
            return
    for keyword in node.keywords:
        if keyword.arg == "value":
            keyword.value = ast.BinOp(keyword.value, ast.Add(), ast.Constant(0.5))


def _other_reduction(node):
    for keyword in node.keywords:
        if keyword.arg in ("reduce_op", "op1") or (keyword.arg == "op" and node.func.attr == "tensor_reduce"):
            name = getattr(keyword.value, "attr", "add")
            keyword.value = ast.parse("nl.maximum" if name == "add" else "nl.add", mode="eval").body


def _alias(function):
    """Gives a buffer the name of an earlier buffer of the same description, or of its address."""
    made: dict[str, str] = {}
    for number, node in enumerate(ast.walk(function)):
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.targets[0], ast.Name)):
            continue
        if getattr(node.value.func, "attr", "") not in ("ndarray", "zeros", "load"):
            continue
        own = node.targets[0].id
        described = _description(node.value)
        if described in made and made[described] != own:
            other = made[described]
            yield number, _aliased(other), node.lineno, f"{own} is {other}"
        made.setdefault(described, own)
        if any(k.arg == "address" for k in node.value.keywords):
            yield number, _moved_address, node.lineno, f"{own} lies 64 bytes before its address"


def _description(call):
    if call.func.attr == "load":
        return "load"
    return f"{[ast.unparse(a) for a in call.args]} {sorted(ast.unparse(k) for k in call.keywords if k.arg not in ('address', 'name'))}"


def _aliased(other):
    def edit(node):
        node.value = ast.Name(other, ast.Load())

    return edit


def _moved_address(node):
    for keyword in node.value.keywords:
        if keyword.arg == "address":
            partition, byte = ast.literal_eval(keyword.value)
            keyword.value = ast.parse(f"({partition}, {abs(byte - 64)})", mode="eval").body


def _barrier(function):
    """Leaves out a barrier between cores."""
    for number, node in enumerate(ast.walk(function)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and getattr(node.value.func, "attr", "") == "core_barrier":
            yield number, lambda n: ast.Pass(), node.lineno, "without core_barrier"


_GENERATORS = {"index": _index, "scale": _scale, "store": _store, "accumulation": _accumulation, "alias": _alias, "barrier": _barrier}

"""Holds a template of one line for every construct of the template language.

make_golden.py records what jinja2 produces from them.
"""

CONSTRUCTS = r"""
{{ 1 }} {{ 1.0 }} {{ true }} {{ None }} {{ 'a' 'b' }} {{ [1, 'x', (2,)] }} {{ {'k': none} }} {{ () }}
{{ 1e16 }} {{ 1e15 }} {{ 1e-5 }} {{ 0.1 + 0.2 }} {{ 1_000 }} {{ 0xff }} {{ 1.5e3 }} {{ -0.0 }} {{ 2.50 }}
{{ 7 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2**3**2 }} {{ -2 ** 2 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}
{{ 1 + 2 * 3 - 4 }} {{ 'a' ~ 1 ~ none ~ 1.5 }} {{ 'ab' * 2 }} {{ [1] * 2 + [2] }} {{ (1,) + (2,) }} {{ true + 1 }}
{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 1 == 1.0 == true }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 != 2 }} {{ 'a' in 'cat' }} {{ 5 not in xs }}
{{ 1 < 'a' }}
{{ 'x' in 5 }}
{{ not true }} {{ not not 1 }} {{ 1 and 0 }} {{ '' or 'b' }} {{ none and x }} {{ 1 if 0 else 2 }} {{ 1 if 0 }}| {{ 'a' if 1 if 1 else 2 }}
{{ missing }}|{{ missing is defined }}|{{ missing | default('d') }}|{{ d.missing }}|{{ d['missing'] }}|{{ xs[9] }}|{{ missing | length }}|{{ [missing] }}|{{ missing == other }}
{{ missing.x }}
{{ missing['x'] }}
{{ missing + 1 }}
{{ missing() }}
{{ none.x }}|{{ none['x'] }}|{{ 5['x'] }}
{{ none.x.y }}
{{ s[0] }} {{ s[-1] }} {{ s[1:3] }} {{ s[::-1] }} {{ s[:-2] }} {{ s[5:1] }} {{ xs[::2] }} {{ xs[-2:] }} {{ s[99] }}| {{ xs[true] }} {{ uni[1] }} {{ uni[::-1] }}
{{ s[::0] }}
{{ none[1:] is defined }}{% set v = missing[1:] %}
{{ d.a }} {{ d['b'] }} {{ d.items() }} {{ d.keys() | list }} {{ d.values() | list }} {{ d.get('a') }} {{ d.get('z', 'no') }} {{ d.get is callable }} {{ d.pop is defined }} {{ xs.append }}|
{{ d.pop('a') }}
{{ xs.append(1) }}
{{ d.update({}) }}
{{ s.__class__ }}|{{ s['__class__'] }}|{{ missing.__class__ }}|{{ d.__x__ }}
{{ s.__class__.__mro__ }}
{{ s.strip() }} {{ s.upper() }} {{ s.title() }} {{ s.split() }} {{ s.split('l') }} {{ s.split('l', 1) }} {{ s.rsplit('l', 1) }} {{ s.replace('l', 'L', 1) }} {{ s.find('o') }} {{ s.rfind('o') }} {{ s.count('l') }}
{{ s.startswith('He') }} {{ s.endswith(('x', 'd')) }} {{ s.partition(' ') }} {{ 'a,b'.split(',') }} {{ 'a\nb\r\nc'.splitlines() }} {{ 'a\nb'.splitlines(true) }} {{ '-'.join(['a', 'b']) }} {{ 'x'.center(5, '*') }} {{ '7'.zfill(3) }} {{ '-7'.zfill(4) }}
{{ '  a  b '.split() }} {{ '  a  b '.split(' ') }} {{ ' a b c '.split(none, 1) }} {{ ' a b c '.rsplit(none, 1) }} {{ ''.split() }} {{ ''.split('x') }} {{ ''.splitlines() }}
{{ 'xxaxx'.strip('x') }} {{ 'xya'.lstrip('yx') }} {{ 'axy'.rstrip('xy') }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }} {{ uni.upper() }} {{ uni.lower() }} {{ uni.title() }} {{ uni.swapcase() }} {{ uni.capitalize() }} {{ uni | length }}
{{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ 'a b'.isalpha() }} {{ ' '.isspace() }} {{ 'Ab'.istitle() }} {{ 'AB'.isupper() }} {{ '²'.isdigit() }} {{ '½'.isnumeric() }} {{ ''.isascii() }} {{ 'a_1'.isidentifier() }} {{ '\n'.isprintable() }}
{{ 'a'.join([1]) }}
{{ 'a'.split('') }}
{{ 'a'.index('z') }}
{{ '{} {}'.format(1, 'x') }} {{ '{1}{0}'.format('a', 'b') }} {{ '{n:>5}|{n:<5}|{n:^5}'.format(n=7) }} {{ '{:.2f} {:05d} {:,} {:x} {:%}'.format(1.005, 42, 1234567, 255, 0.25) }} {{ '{{}} {!r}'.format('q') }} {{ '{0[0]} {0[k]}'.format({'k': 1}) }}
{{ '%s %r %d %5.1f %-4s| %05d %x %%' % ('a', 'b', 3.9, 2.25, 'c', 42, 255) }} {{ '%s' % s }} {{ '%(a)s' % d }} {{ '%s' | format(n) }} {{ '%d' | format(true) }}
{{ '%d' % 'x' }}
{{ '%s %s' % ('a',) }}
{{ ' a ' | trim }}| {{ 'a' | upper | lower }} {{ 'a b' | title }} {{ 'aB' | capitalize }} {{ s | replace('l', 'x', 2) }} {{ 5 | replace(5, 6) }} {{ s | reverse }} {{ s | first }} {{ s | last }} {{ s | wordcount }} {{ s | center(15) }}|
{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\n\nb' | indent('> ', blank=true) }}|{{ 'a\n' | indent(first=true) }}|
{{ '42' | int }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ '0x1f' | int(0, 16) }} {{ '4.7' | int }} {{ 4.7 | int }} {{ '1.5' | float }} {{ 'x' | float }} {{ none | int }} {{ true | int }} {{ -3 | abs }} {{ 2.5 | round }} {{ 3.5 | round }} {{ 2.567 | round(2) }} {{ 2.51 | round(1, 'floor') }} {{ 15 | round(-1) }} {{ 1.1 | round(0, 'ceil') }} {{ (0 - 0.04) | round(1, 'ceil') }}
{{ xs | sort }} {{ xs | sort(reverse=true) }} {{ ss | sort }} {{ ss | sort(case_sensitive=true) }} {{ tools | sort(attribute='n,name') | map(attribute='name') | join(',') }} {{ xs | unique | list }} {{ xs | min }} {{ xs | max }} {{ xs | sum }} {{ xs | first }} {{ xs | last }} {{ xs | reverse | list }} {{ xs | length }}
{{ d | dictsort }} {{ {'x': 2, 'y': 1} | dictsort(by='value') }} {{ d | items | list }} {{ d | list }} {{ d | length }} {{ d | first }} {{ 'abc' | list }} {{ [] | first }}| {{ [] | max }}|
{{ tools | selectattr('n', 'equalto', 2) | map(attribute='name') | list }} {{ tools | rejectattr('tags') | list | length }} {{ tools | selectattr('tags') | list | length }} {{ xs | select('odd') | list }} {{ xs | reject('gt', 2) | list }} {{ xs | map('string') | join('+') }} {{ ss | map('upper') | list }} {{ tools | map(attribute='zz', default='-') | list }} {{ tools | groupby('n') }} {{ tools | sum(attribute='n') }}
{{ xs | batch(2) | list }} {{ xs | batch(3, 0) | list }} {{ xs | slice(3) | list }} {{ xs | slice(3, 'f') | list }} {{ [1, none, 0, 'a'] | select | list }} {{ xs | map('nofilter') is iterable }}
{{ xs | map('upper') | length }}
{{ xs | select('notest') | list }}
{{ [1, 'a'] | sort }}
{{ d | tojson }} {{ d | tojson(indent=2) }} {{ d | tojson(separators=(',', ':')) }} {{ {'b': 1, 'a': [1.0, none, true]} | tojson(sort_keys=true) }} {{ uni | tojson }} {{ uni | tojson(ensure_ascii=true) }} {{ '<a href="x">\n\t\x01\\' | tojson }} {{ [] | tojson(indent=4) }} {{ {1: 2, none: 3, true: 4} | tojson }} {{ (1, 2) | tojson }} {{ s | tojson(indent='--') }}
{{ missing | tojson }}
{{ '<b>' | e }} {{ '<b>' | safe + '<i>' }} {{ ('<b>' | escape) ~ '<i>' }} {{ '<b>' | forceescape }} {{ 'long text that is cut' | truncate(10) }} {{ 'long text' | truncate(7, true, '…', 0) }} {{ 5 | string + '5' }} {{ d | attr('a') }}| {{ s | attr('upper') is defined }}
{{ 1 is odd }} {{ 2 is even }} {{ 9 is divisibleby 3 }} {{ 9 is not divisibleby(2) }} {{ n is defined }} {{ none is none }} {{ s is string }} {{ d is mapping }} {{ xs is sequence }} {{ d is sequence }} {{ 5 is iterable }} {{ s is iterable }} {{ 1 is number }} {{ 1.5 is float }} {{ 1 is integer }} {{ true is integer }} {{ true is boolean }} {{ true is true }} {{ 0 is false }} {{ 'a' is lower }} {{ 'A' is upper }} {{ n is sameas n }} {{ 1 is in [1, 2] }} {{ 3 is eq 3 }} {{ 3 is gt 2 }} {{ range is callable }} {{ 'upper' is filter }} {{ 'odd' is test }} {{ missing is undefined }} {{ '' is not none and 1 is not string }}
{% for x in xs %}{{ loop.index }}/{{ loop.length }}:{{ x }}{% if not loop.last %}, {% endif %}{% endfor %} {% for x in [] %}x{% else %}none{% endfor %} {% for x in xs if x > 1 %}{{ loop.index0 }}{{ x }} {% else %}-{% endfor %}
{% for x in xs %}{{ loop.first }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 2) }}{{ loop.depth }} {% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %} {% for k in d %}{{ k }}{% endfor %} {% for c in 'añb' %}{{ c }}.{% endfor %} {% for a, b in [[1, 2], (3, 4)] %}{{ a + b }} {% endfor %} {% for x in range(5, 0, -2) %}{{ x }}{% endfor %} {{ range(3) }} {{ range(3) | list }} {{ range(10)[2:8:3] | list }}
{% for x in xs %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% else %}never{% endfor %}|{% for x in xs %}{% continue %}{% else %}jinja runs this{% endfor %}|{% for x in xs if x > 5 %}{% else %}empty{% endfor %}
{% for a, b in xs %}{% endfor %}
{% for x in 5 %}{% endfor %}
{% for x in xs %}{{ loop.length }}{% endfor %} {% for x in xs | select('odd') %}{{ loop.last }}{{ loop.length }} {% endfor %} {% for x in xs recursive %}{{ x }}{% if loop.depth < 2 %}({{ loop([7, 8]) }}){% endif %}{% endfor %}
{% set x = 1 %}{% for i in xs %}{{ x }}{% set x = i %}{{ x }} {% endfor %}{{ x }} {% if true %}{% set y = 5 %}{% endif %}{{ y }} {% set a, b = 1, 2 %}{{ a }}{{ b }} {% set t = 1, 2 %}{{ t }}
{% set ns = namespace(n=0, s='') %}{% for x in xs %}{% set ns.n = ns.n + x %}{% set ns.s = ns.s ~ x %}{% endfor %}{{ ns.n }} {{ ns.s }} {{ ns.missing }}| {{ ns['n'] }} {{ ns is mapping }}
{% set d.x = 1 %}
{% set ns = namespace() %}{% set ns._x = 1 %}
{% set b %}  in {{ n }} {% endset %}[{{ b }}] {% set b | trim | upper %}  x {% endset %}[{{ b }}] {% filter upper %}a{{ s }}{% endfilter %} {% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}
{% filter length %}abc{% endfilter %}
{% macro m(a, b=2, c=a) %}{{ a }}-{{ b }}-{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(a=5, b=6, c=7) }}{{ m() }}{{ m(*[1, 2]) }}{{ m(**{'a': 9}) }} {{ m.name }} {{ m is callable }}
{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }} {% macro r(n) %}{{ n }}{% if n > 0 %}{{ r(n - 1) }}{% endif %}{% endmacro %}{{ r(3) }} {% macro w() %}<{{ caller('x') }}>{% endmacro %}{% call(p) w() %}in {{ p }}{% endcall %}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=2) }}
{% generation %}said {{ s }}{% set inside = 1 %}{% endgeneration %}{{ inside }}| {{ dict(z=1, **d) }} {{ dict([['x', 1]]) }} {{ strftime_now('%Y-%m-%d %H:%M') }}
{{ raise_exception('no ' ~ s) }}
{% if 0 %}a{% elif missing %}b{% elif [] %}c{% else %}d{% endif %} {% if xs and d %}y{% endif %} {%- if true -%} z {%- endif -%} |
{{- ' a' -}}   b   {{- 'c' }}  {%- set q = 1 %}  d {#- gone -#} e {%+ if true +%} f {% endif %}
{% raw %}{{ x }} {% if %}{% endraw %}|{%- raw -%}  {# y #}  {%- endraw -%} |
{{ '\n\t\\\'\"\x41\u00e9\U0001F600\101\q' }} {{ "it's" }} {{ ["it's", 'q"', 'b\\', '\n', '\x00\xa0\u200b😀'] }}
{{ [[1, [2, {'a': (3,)}]], true, none, 1.0] }} {{ {'a': {'b': []}} }} {{ {1: 'a', true: 'b', 'c': 2.0} }}
{{ 'a' is }}
{{ 1 + }}
{% if x %}
{% endfor %}
{% nosuchtag %}
{{ 'open }}
{{ (1, 2 }}
{{ 1 | nosuchfilter }}
{% if false %}{{ 1 | nosuchfilter }}{% endif %}fine
{{ 1 is nosuchtest }}
{% break %}
{% set true = 1 %}
{{ 1 // 0 }}
{{ 1 / 0 }}
{{ 1 % 0 }}
{{ 'x' + 1 }}
{{ [1] + (2,) }}
{{ {[1]: 2} }}
{{ range(1000000) }}
{{ s.nosuchmethod() }}
{{ 5() }}
{{ f(a=1, 2) }}
{# not ended
{% raw %} not ended
""".strip("\n").split("\n")

# The following templates have several lines, because trim_blocks and lstrip_blocks act on line ends.
CONSTRUCTS += [
    "{% if true %}\n  a\n  {% if true %}\n    b\n  {% endif %}\n{% endif %}\n",
    "  {% for x in xs %}  \n{{ x }}\n  {%- endfor %}  \n\n\nend\n\n",
    "a\r\n  {# c #}\r\nb\r{% set x = 1 %}\r\n{{ x }}\r\n",
    "x  {%+ if true %}y{% endif %}\n  {%+ if true %}z{%- endif +%}\n w",
    "{{ 'a\r\nb' }}\n\t{#- c -#}\n\t{{ 1 }}\n\n  {%- raw %}\n  {{ }}\n  {% endraw %}\n  end",
]

CONTEXT = {
    "s": "Hello World",
    "n": 7,
    "uni": "Straße ǅ ﬁ ΑΣ İ e\u0301 😀",
    "xs": [3, 1, 2, 3],
    "ss": ["b", "A", "c", "a"],
    "d": {"b": 2, "a": 1, "C": "é"},
    "tools": [{"name": "b", "n": 2, "tags": ["x"]}, {"name": "a", "n": 1, "tags": []}, {"name": "a", "n": 2}],
}

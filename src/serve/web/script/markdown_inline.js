// Makes nodes of the Markdown within a block: emphasis, code and links.

function inlined(tag, text, depth) {
  const node = element(tag);
  appendInline(node, text, depth);
  return node;
}

// Returns null for an address that is relative or has a scheme other than http, https and mailto.
// Such an address stays text.
function safeAddress(text) {
  try {
    const address = new URL(text);
    return ['http:', 'https:', 'mailto:'].includes(address.protocol) ? address.href : null;
  } catch {
    return null;
  }
}

const link = (address, ...children) =>
  element('a', { href: address, target: '_blank', rel: 'noopener noreferrer nofollow' }, ...children);

const kInlineOfLinks = [inlineEscape, inlineBreak, inlineCode, inlineEmphasis];
const kInline = [...kInlineOfLinks, inlineLink, inlineAddress];

// Appends the nodes of a text. Every rule looks at one place of the text. It returns the node that
// begins there and the end of its text, or null. Marks without a closing partner are kept in
// `lonely`, so that a text of many such marks is not searched again and again.
function appendInline(parent, text, depth, rules = kInline) {
  if (depth > kDeepest) {
    parent.append(text);
    return;
  }
  const scan = { text, depth, rules, lonely: new Set() };
  let plain = 0, i = 0;
  while (i < text.length) {
    const special = /[\\\n`*_~[!<h]/g;
    special.lastIndex = i;
    i = special.exec(text)?.index ?? text.length;
    if (i === text.length) break;
    const found = firstOf(rules, scan, i);
    if (found) {
      parent.append(text.slice(plain, i), found[0]);
      plain = i = found[1];
    } else {
      i += /^(?:`+|\*+|_+|~+|.)/su.exec(text.slice(i, i + 64))[0].length;
    }
  }
  parent.append(text.slice(plain));
}

function inlineEscape({ text }, i) {
  return text[i] === '\\' && /[!-/:-@[-`{-~]/.test(text[i + 1] ?? '') ? [document.createTextNode(text[i + 1]), i + 2] : null;
}

function inlineBreak({ text }, i) {
  return text[i] === '\n' ? [element('br'), i + 1] : null;
}

function inlineCode({ text, lonely }, i) {
  if (text[i] !== '`') return null;
  const marks = /^`+/.exec(text.slice(i, i + 64))[0];
  if (lonely.has(marks)) return null;
  for (let at = text.indexOf(marks, i + marks.length); at >= 0;) {
    let end = at + marks.length;
    while (text[end] === '`') ++end;
    if (end === at + marks.length) {
      return [element('code', {}, text.slice(i + marks.length, at).replace(/^ (.*\S.*) $/s, '$1')), end];
    }
    at = text.indexOf(marks, end);
  }
  lonely.add(marks);
  return null;
}

const kEmphasis = {
  '*': ['em'], '_': ['em'], '**': ['strong'], '__': ['strong'], '***': ['strong', 'em'], '___': ['strong', 'em'], '~~': ['del'],
};
const isWord = character => character !== undefined && /[\p{L}\p{N}_]/u.test(character);

function inlineEmphasis({ text, depth, rules, lonely }, i) {
  if (!'*_~'.includes(text[i])) return null;
  const marks = /^(?:\*+|_+|~+)/.exec(text.slice(i, i + 64))[0];
  const begin = i + marks.length;
  if (!kEmphasis[marks] || lonely.has(marks) || /^\s?$/.test(text[begin] ?? '')) return null;
  if (marks[0] === '_' && isWord(text[i - 1])) return null;
  const end = closing(text, marks, begin);
  if (end < 0) {
    lonely.add(marks);
    return null;
  }
  const tags = kEmphasis[marks].map(tag => element(tag));
  tags.reduce((outer, inner) => (outer.append(inner), inner));
  appendInline(tags.at(-1), text.slice(begin, end), depth + 1, rules);
  return [tags[0], end + marks.length];
}

// Returns the position of the marks that close an emphasis, or -1. They must follow a character
// that is not white space. A run of three marks closes two of them at its end, since it may close
// two emphases.
function closing(text, marks, from) {
  for (let at = text.indexOf(marks, from); at >= 0;) {
    let end = at;
    while (text[end] === marks[0]) ++end;
    const fits = end - at === marks.length || (end - at === 3 && marks.length === 2);
    const isClosing = at > from && !/\s/.test(text[at - 1]);
    if (fits && isClosing && !(marks[0] === '_' && isWord(text[end]))) return end - marks.length;
    at = text.indexOf(marks, end);
  }
  return -1;
}

// Matches (address "title"). The address may contain pairs of parentheses.
const kTarget = /^\(\s*<?([^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*)>?(?:\s+"[^"]*")?\s*\)/;

function inlineLink({ text, depth }, i) {
  const begin = text[i] === '!' ? i + 1 : i;
  if (text[begin] !== '[') return null;
  let end = begin, open = 0;
  do {
    if (text[end] === '[') ++open;
    if (text[end] === ']') --open;
  } while (open > 0 && ++end < Math.min(text.length, begin + 1000));
  if (open > 0 || text[end + 1] !== '(') return null;
  const target = kTarget.exec(text.slice(end + 1, end + 3000));
  const address = target && safeAddress(target[1]);
  if (!address) return null;
  const node = link(address);
  appendInline(node, text.slice(begin + 1, end) || target[1], depth + 1, kInlineOfLinks);
  return [node, end + 1 + target[0].length];
}

function inlineAddress({ text }, i) {
  const bracketed = /^<((?:https?:\/\/|mailto:)[^\s<>]+)>/.exec(text.slice(i, i + 2000));
  if (bracketed && safeAddress(bracketed[1])) return [link(safeAddress(bracketed[1]), bracketed[1]), i + bracketed[0].length];
  if (text[i] !== 'h' || isWord(text[i - 1])) return null;
  let shown = /^https?:\/\/[^\s<>"'`*]+/.exec(text.slice(i, i + 2000))?.[0].replace(/[.,;:!?]+$/, '');
  if (shown?.endsWith(')') && !shown.includes('(')) shown = shown.replace(/[).,;:!?]+$/, '');
  const address = shown && safeAddress(shown);
  return address ? [link(address, shown), i + shown.length] : null;
}

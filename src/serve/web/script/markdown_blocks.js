// Splits Markdown into blocks of lines and makes elements of the blocks. markdown_inline.js handles
// the text within a block.

const kFence = /^ {0,3}(`{3,}|~{3,})[ \t]*([^\s`]*)[^`]*$/;
const kHeading = /^ {0,3}(#{1,6})[ \t]+(\S.*)$/;
const kRule = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const kQuote = /^ {0,3}> ?/;
const kItem = /^( *)([-*+]|\d{1,9}[.)])( +|$)(.*)$/;
const kTableRule = /^ {0,3}\|?(?: *:?-+:? *\|)+ *(?::?-+:? *)?$/;
const kDeepest = 8;  // how deep blocks and emphasis may nest; deeper ones stay text

const blank = line => line.trim() === '';
const indentOf = line => line.length - line.trimStart().length;
const isTable = (lines, i) => i + 1 < lines.length && lines[i].includes('|') && kTableRule.test(lines[i + 1]);
const interrupts = (lines, i) => kFence.test(lines[i]) || kHeading.test(lines[i]) || kRule.test(lines[i]) ||
  kQuote.test(lines[i]) || /^ {0,3}(?:[-*+]|1[.)]) +\S/.test(lines[i]) || isTable(lines, i);

// Returns the result of the first rule that applies, or null.
function firstOf(rules, ...place) {
  for (const rule of rules) {
    const found = rule(...place);
    if (found) return found;
  }
  return null;
}

// Returns the blocks of a text. A block has whatever its function in kMakers needs, and the lines
// that it came from. Blocks with the same lines are equal.
function splitBlocks(text) {
  const lines = text.replace(/\r\n?/g, '\n').replace(/\t/g, '    ').split('\n');
  const blocks = [];
  for (let i = 0; i < lines.length;) {
    if (blank(lines[i])) { ++i; continue; }
    const [block, end] = firstOf(kBlocks, lines, i);
    blocks.push({ ...block, source: lines.slice(i, end).join('\n') });
    i = end;
  }
  return blocks;
}

function takeCode(lines, i) {
  const fence = kFence.exec(lines[i]);
  if (!fence) return null;
  const indent = indentOf(lines[i]);
  const closes = line => line.trim().length >= fence[1].length && line.trim().replaceAll(fence[1][0], '') === '';
  let end = i + 1;
  while (end < lines.length && !closes(lines[end])) ++end;
  const code = lines.slice(i + 1, end).map(line => line.slice(Math.min(indent, indentOf(line)))).join('\n');
  return [{ kind: 'code', language: fence[2], code }, Math.min(end + 1, lines.length)];
}

function takeHeading(lines, i) {
  const heading = kHeading.exec(lines[i]);
  if (!heading) return null;
  return [{ kind: 'heading', level: heading[1].length, text: heading[2].trimEnd().replace(/ #+$/, '') }, i + 1];
}

function takeRule(lines, i) {
  return kRule.test(lines[i]) ? [{ kind: 'rule' }, i + 1] : null;
}

function takeQuote(lines, i) {
  let end = i;
  while (end < lines.length && kQuote.test(lines[end])) ++end;
  return end > i ? [{ kind: 'quote', text: lines.slice(i, end).map(line => line.replace(kQuote, '')).join('\n') }, end] : null;
}

// Reads a list. A line belongs to an item if it is indented more than the item's mark, or if it
// continues the item's paragraph.
function takeList(lines, i) {
  const first = kItem.exec(lines[i]);
  if (!first) return null;
  const ordered = first[2].length > 1, base = first[1].length, items = [];
  let end = i, gap = false;
  for (let at = i; at < lines.length; ++at) {
    const item = kItem.exec(lines[at]);
    if (blank(lines[at])) {
      gap = true;
      items.at(-1).push('');
    } else if (item && !kRule.test(lines[at]) && Math.abs(item[1].length - base) < 2 && (item[2].length > 1) === ordered) {
      items.push([item[4]]);
      gap = false;
    } else if (indentOf(lines[at]) > base) {
      items.at(-1).push(lines[at].slice(Math.min(indentOf(lines[at]), base + first[2].length + 1)));
      gap = false;
    } else if (!gap && !item && !interrupts(lines, at)) {
      items.at(-1).push(lines[at]);
    } else {
      break;
    }
    if (!blank(lines[at])) end = at + 1;
  }
  return [{ kind: 'list', ordered, start: parseInt(first[2], 10), items: items.map(item => item.join('\n').trimEnd()) }, end];
}

const cellsOf = line => line.trim().replace(/^\|/, '').replace(/(?<!\\)\|$/, '').split(/(?<!\\)\|/)
  .map(cell => cell.trim().replaceAll('\\|', '|'));

function takeTable(lines, i) {
  if (!isTable(lines, i)) return null;
  let end = i + 2;
  while (end < lines.length && lines[end].includes('|')) ++end;
  const sides = cellsOf(lines[i + 1]).map(rule =>
    rule.endsWith(':') ? (rule.startsWith(':') ? 'center' : 'right') : rule.startsWith(':') ? 'left' : null);
  return [{ kind: 'table', sides, head: cellsOf(lines[i]), rows: lines.slice(i + 2, end).map(cellsOf) }, end];
}

function takeParagraph(lines, i) {
  let end = i + 1;
  while (end < lines.length && !blank(lines[end]) && !interrupts(lines, end)) ++end;
  return [{ kind: 'paragraph', text: lines.slice(i, end).map(line => line.trim()).join('\n') }, end];
}

const kBlocks = [takeCode, takeHeading, takeRule, takeQuote, takeList, takeTable, takeParagraph];

const kMakers = {
  rule: () => element('hr'),
  paragraph: (block, depth) => inlined('p', block.text, depth),
  // The first two levels are the headings of the page and of the conversation.
  heading: (block, depth) => inlined(`h${Math.min(block.level + 2, 6)}`, block.text, depth),
  quote: (block, depth) => element('blockquote', {}, ...makeBlocks(block.text, depth)),
  list: (block, depth) => element(block.ordered ? 'ol' : 'ul',
    { start: block.ordered && block.start !== 1 ? block.start : null }, ...block.items.map(item => makeItem(item, depth))),
  code: makeCode,
  table: makeTable,
};

function makeBlocks(text, depth) {
  if (depth >= kDeepest) return [document.createTextNode(text)];
  return splitBlocks(text).map(block => kMakers[block.kind](block, depth + 1));
}

function makeItem(text, depth) {
  const nodes = makeBlocks(text.replace(/^\[( |x|X)\] /, (_, mark) => mark === ' ' ? '☐ ' : '☑ '), depth);
  const lone = nodes.filter(node => node.nodeName === 'P').length === 1 && nodes[0].nodeName === 'P';
  return element('li', {}, ...(lone ? [...nodes[0].childNodes, ...nodes.slice(1)] : nodes));
}

function makeCode(block) {
  const copy = button('Copy', () => copyText(block.code, copy), { 'aria-label': 'Copy code' });
  return element('div', { class: 'code' },
    element('div', { class: 'head' }, element('span', { class: 'quiet' }, block.language || 'text'), copy),
    element('pre', { tabindex: '0', role: 'group', 'aria-label': 'Code' }, element('code', {}, block.code)));
}

function makeTable(block, depth) {
  const row = (cells, tag) => element('tr', {}, ...block.head.map((_, i) => {
    const cell = inlined(tag, cells[i] ?? '', depth);
    if (block.sides[i]) cell.className = block.sides[i];
    return cell;
  }));
  return element('div', { class: 'scroll', tabindex: '0', role: 'group', 'aria-label': 'Table' },
    element('table', {}, element('thead', {}, row(block.head, 'th')),
      element('tbody', {}, ...block.rows.map(cells => row(cells, 'td')))));
}

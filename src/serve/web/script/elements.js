'use strict';

// Helpers that all other scripts use. Elements are made from attributes and text, never from
// markup.

const $ = id => document.getElementById(id);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, '');
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.filter(child => child != null));
  return node;
}
const element = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const drawing = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
const button = (text, onclick, attributes = {}) =>
  element('button', { type: 'button', class: 'plain', onclick, ...attributes }, text);

function number(value, digits = 3) {
  if (!Number.isFinite(value)) return '–';
  const whole = Math.trunc(Math.abs(value)).toString().length;
  return value.toLocaleString('en', { maximumSignificantDigits: Math.max(digits, whole) });
}
const seconds = value => value < 1 ? `${number(value * 1000)} ms` : `${number(value)} s`;
function bytes(value) {
  const unit = value >= 1e9 ? 'GB' : value >= 1e6 ? 'MB' : value >= 1e3 ? 'kB' : 'bytes';
  return `${number(value / { GB: 1e9, MB: 1e6, kB: 1e3, bytes: 1 }[unit])} ${unit}`;
}
const isObject = value => typeof value === 'object' && value !== null && !Array.isArray(value);

function notify(text) {
  $('notice').hidden = false;
  $('notice').firstElementChild.textContent = text;
}

// Copies a text for the button `from`, which says "Copied" for a moment.
async function copyText(text, from) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // a page that came over plain HTTP from another machine has no clipboard
    const area = element('textarea', {}, text);
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  from.textContent = 'Copied';
  setTimeout(() => { from.textContent = 'Copy'; }, 1500);
}

function download(name, value) {
  const address = URL.createObjectURL(new Blob([JSON.stringify(value, null, 1)], { type: 'application/json' }));
  element('a', { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

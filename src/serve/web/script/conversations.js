// Manages the conversations: which there are, which one is open, and their export and import.

const app = { conversations: new Map(), current: null, models: [], model: {}, defaults: {}, left: false };
const runs = new Map();   // the answers that are being received, by the id of their conversation
const views = new Map();  // the views of the messages on the page, by message

const newConversation = () => ({
  id: newId(), title: '', named: false, created: Date.now(), updated: Date.now(), settings: { ...app.defaults }, messages: [],
});
const titleOf = conversation => conversation.title || 'New conversation';

function loadConversations() {
  app.conversations.clear();
  for (const name of store.names('conversation.')) {
    try {
      const conversation = readConversation(store.read(name), name);
      app.conversations.set(conversation.id, conversation);
    } catch { /* an entry that this page did not write is left alone */ }
  }
}

// Keeps a conversation in the browser, unless it is empty.
function save(conversation) {
  if (!conversation.named) {
    const first = conversation.messages.find(message => message.role === 'user')?.content.trim().replace(/\s+/g, ' ') ?? '';
    conversation.title = first.length > 60 ? `${first.slice(0, 59)}…` : first;
  }
  app.conversations.set(conversation.id, conversation);
  if (conversation.messages.length > 0 || conversation.named) store.write(`conversation.${conversation.id}`, conversation);
}

function saveChanged(conversation) {
  conversation.updated = Date.now();
  save(conversation);
  showList();
}

function open(conversation) {
  app.current = conversation;
  store.write('current', conversation.id);
  showList();
  showConversation();
}

function startNew() {
  open(newConversation());
  closeSidebar();
  $('text').focus();
}

function removeConversation(conversation) {
  runs.get(conversation.id)?.controller.abort();
  app.conversations.delete(conversation.id);
  store.remove(`conversation.${conversation.id}`);
  open(sorted()[0] ?? newConversation());
  showUndoLine(`“${titleOf(conversation)}” was deleted.`, () => {
    save(conversation);
    open(conversation);
  });
  $('text').focus();
}

const sorted = () => [...app.conversations.values()].sort((a, b) => b.updated - a.updated);

function matches(conversation, words) {
  const text = [conversation.title, ...conversation.messages.map(message => message.content)].join('\n').toLowerCase();
  return words.every(word => text.includes(word));
}

function showList() {
  const words = $('search').value.toLowerCase().split(/\s+/).filter(word => word);
  const found = sorted().filter(conversation => matches(conversation, words));
  const focused = document.activeElement.dataset.conversation;
  $('list').replaceChildren(...found.map(conversation => element('li', {}, element('button', {
    type: 'button', title: titleOf(conversation), 'aria-current': conversation === app.current ? 'true' : null,
    'data-conversation': conversation.id,
    onclick: () => { open(conversation); closeSidebar(); },
  }, runs.has(conversation.id) ? `… ${titleOf(conversation)}` : titleOf(conversation)))));
  if (focused) $('list').querySelector(`[data-conversation="${focused}"]`)?.focus();
  const count = `${found.length} ${found.length === 1 ? 'conversation' : 'conversations'}`;
  $('found').textContent = words.length > 0 ? `${count} found` : found.length > 0 ? count : 'Nothing is kept yet.';
}

// Shows a line above the message field. With an action, the line has a button that undoes a change.
let undo = null;
function showUndoLine(text, action = null) {
  undo = action;
  $('undo').hidden = !text;
  $('undo').children[1].hidden = !action;
  $('undo').firstElementChild.textContent = text;
}

function exportConversations(conversations, name) {
  download(`${name.replace(/[^\p{L}\p{N}]+/gu, '-').slice(0, 60) || 'conversation'}.json`, exported(conversations));
}

// Imports all conversations of a file, or none if the file is wrong. A conversation that is already
// here is skipped. If it has the same id and other messages, it becomes a new conversation.
async function importFile(file) {
  let read;
  try {
    read = readFile(await file.text());
  } catch (error) {
    notify(`Nothing was imported of ${file.name}: ${error.message}`);
    return;
  }
  let added = 0, last = null;
  for (const conversation of read) {
    const here = app.conversations.get(conversation.id);
    if (here && JSON.stringify(here.messages) === JSON.stringify(conversation.messages)) continue;
    if (here) conversation.id = newId();
    save(conversation);
    last = conversation;
    ++added;
  }
  showList();
  if (last) open(last);
  showUndoLine(`${added} imported, ${read.length - added} already here.`);
}

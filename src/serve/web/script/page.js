// Connects the parts of the page: tabs, theme, keyboard shortcuts, and the actions of all controls.

function showView(name) {
  for (const each of ['chat', 'model']) {
    const selected = each === name;
    $(`view-${each}`).hidden = !selected;
    $(`tab-${each}`).setAttribute('aria-selected', `${selected}`);
    $(`tab-${each}`).tabIndex = selected ? 0 : -1;
  }
  $('menu').disabled = name !== 'chat';
  history.replaceState(null, '', name === 'chat' ? '#' : `#${name}`);
  poll();
}

function showTheme(theme) {
  $('theme').value = theme;
  document.documentElement.dataset.theme = theme;
}

function closeSidebar() {
  $('sidebar').classList.remove('open');
  $('menu').setAttribute('aria-expanded', 'false');
}

function rename(name) {
  if (name) Object.assign(app.current, { title: name, named: true });
  saveChanged(app.current);
  showTitle();
  editTitle(false);
  $('rename').focus();
}

function editTitle(editing) {
  $('rename-form').hidden = !editing;
  $('title').hidden = editing;
  if (!editing) return;
  $('name').value = app.current.title;
  $('name').select();
}

function editLast() {
  const message = app.current.messages.findLast(({ role }) => role === 'user');
  if (message) viewOf(message).edit();
}

const kShortcuts = {
  'ctrl+shift+o': startNew,
  'ctrl+k': () => { $('sidebar').classList.add('open'); $('search').focus(); },
  'ctrl+,': showSettings,
  'ctrl+/': () => $('help-dialog').showModal(),
};

function takeKey(event) {
  if (document.querySelector('dialog[open]') || event.isComposing) return;
  if (event.key === 'Escape') {
    if ($('sidebar').classList.contains('open')) { closeSidebar(); $('menu').focus(); }
    else stop(app.current);
    return;
  }
  const keys = `${event.ctrlKey || event.metaKey ? 'ctrl+' : ''}${event.shiftKey ? 'shift+' : ''}${event.key.toLowerCase()}`;
  if (!kShortcuts[keys]) return;
  event.preventDefault();
  showView('chat');
  kShortcuts[keys]();
}

// Loads the conversations again after another browser tab has changed one. A conversation that is
// being answered in this tab stays as it is. So does the open one unless it is the one that has
// changed, because the messages on the page belong to it.
function takeStorageEvent({ key }) {
  const id = key?.startsWith(`${store.prefix}conversation.`) && key.slice(`${store.prefix}conversation.`.length);
  if (!id || runs.has(id)) return;
  loadConversations();
  for (const run of runs.values()) app.conversations.set(run.conversation.id, run.conversation);
  if (app.current.id === id) app.current = app.conversations.get(id) ?? app.current;
  else if (app.conversations.has(app.current.id)) app.conversations.set(app.current.id, app.current);
  showList();
  if (app.current.id === id) showConversation();
}

function wireComposer() {
  $('composer').addEventListener('submit', event => { event.preventDefault(); send(); });
  $('stop').addEventListener('click', () => { stop(app.current); $('text').focus(); });
  $('text').addEventListener('input', () => { growComposer(); store.write('draft', $('text').value); });
  $('text').addEventListener('keydown', event => {
    if (sends(event)) { event.preventDefault(); send(); }
    if (event.key === 'ArrowUp' && $('text').value === '') { event.preventDefault(); editLast(); }
  });
  const [, back, dismiss] = $('undo').children;
  back.addEventListener('click', () => { undo(); $('text').focus(); });
  dismiss.addEventListener('click', () => { showUndoLine(''); $('text').focus(); });
  $('notice').lastElementChild.addEventListener('click', () => { $('notice').hidden = true; $('text').focus(); });
}

function wireConversations() {
  const on = (id, kind, action) => $(id).addEventListener(kind, action);
  on('new', 'click', startNew);
  on('search', 'input', showList);
  on('export-all', 'click', () => exportConversations(sorted(), 'neuronmm-conversations'));
  on('import', 'change', async () => {
    if ($('import').files.length > 0) await importFile($('import').files[0]);
    $('import').value = '';
  });
  on('rename', 'click', () => editTitle(true));
  on('rename-form', 'submit', event => { event.preventDefault(); rename($('name').value.trim()); });
  on('rename-form', 'keydown', event => {
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    editTitle(false);
    $('rename').focus();
  });
  on('export', 'click', () => exportConversations([app.current], titleOf(app.current)));
  on('delete', 'click', () => removeConversation(app.current));
  on('settings', 'click', showSettings);
  on('menu', 'click', () => $('menu').setAttribute('aria-expanded', `${$('sidebar').classList.toggle('open')}`));
}

function wireDialogs() {
  for (const dialog of document.querySelectorAll('dialog')) {
    dialog.querySelector('[value="cancel"]')?.addEventListener('click', () => dialog.close());
    dialog.querySelector('form').addEventListener('submit', event => {
      event.preventDefault();
      if (dialog.id === 'settings-dialog') saveSettings(false);
      else dialog.close(dialog.id === 'key-dialog' && $('key').value ? 'use' : '');
    });
  }
  $('settings-dialog').querySelector('[value="default"]').addEventListener('click', () => saveSettings(true));
  $('fields').append(...kSettings.map(settingInput));
  $('help').addEventListener('click', () => $('help-dialog').showModal());
}

function wirePage() {
  for (const [name, other] of [['chat', 'model'], ['model', 'chat']]) {
    $(`tab-${name}`).addEventListener('click', () => showView(name));
    $(`tab-${name}`).addEventListener('keydown', event => {
      if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return;
      showView(other);
      $(`tab-${other}`).focus();
    });
  }
  $('theme').addEventListener('change', () => { showTheme($('theme').value); store.write('theme', $('theme').value); });
  document.addEventListener('keydown', takeKey);
  document.addEventListener('visibilitychange', poll);
  addEventListener('storage', takeStorageEvent);
  // Answers are saved once per second, so the latest text is saved when the page is left. The
  // answer is then cut off, and says so when the page is opened again.
  addEventListener('pagehide', () => {
    app.left = true;
    for (const { conversation } of runs.values()) save(conversation);
  });
  addEventListener('pageshow', () => { app.left = false; });
}

function start() {
  showTheme(store.read('theme') ?? '');
  try {
    app.defaults = readSettings(store.read('defaults') ?? {}, 'defaults');
  } catch { /* defaults of another version are ignored, so the server's apply */ }
  loadConversations();
  wireComposer();
  wireConversations();
  wireDialogs();
  wirePage();
  $('text').value = store.read('draft') ?? '';
  open(app.conversations.get(store.read('current')) ?? newConversation());
  growComposer();
  showView(location.hash === '#model' ? 'model' : 'chat');
  findServer();
  $('text').focus();
}

start();

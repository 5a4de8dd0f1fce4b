// Shows the messages on the page: their text, the lines with statistics and buttons below them, and
// the text for screen readers.

const kEndTexts = { length: 'Ended at the limit of tokens.', stopped: 'Stopped.', left: 'Cut off when the page was left.' };

function statsText(message) {
  const { tokens, exact, rate, first, prompt, cached } = message.stats ?? {};
  const parts = [];
  if (tokens != null) parts.push(`${exact ? '' : '≈ '}${tokens} ${tokens === 1 ? 'token' : 'tokens'}`);
  if (rate != null) parts.push(`${number(rate)} tokens/s`);
  if (first != null) parts.push(`first after ${seconds(first)}`);
  if (prompt != null) parts.push(`prompt ${prompt} tokens${cached ? `, ${cached} of them cached` : ''}`);
  return [parts.join(' · '), kEndTexts[message.end] ?? ''].filter(part => part).join(' — ');
}

class UserView {
  constructor(message) {
    this.message = message;
    this.body = element('div', { class: 'body' });
    this.foot = element('div', { class: 'foot' });
    this.node = element('article', { class: 'message user', 'aria-label': 'You' },
      element('div', { class: 'who' }, 'You'), this.body, this.foot);
    this.update();
  }
  update() {
    const copy = button('Copy', () => copyText(this.message.content, copy));
    this.body.className = 'body';
    this.body.replaceChildren(this.message.content);
    this.foot.replaceChildren(copy, button('Edit', () => this.edit()));
  }
  edit() {
    const area = element('textarea', { 'aria-label': 'Edit the message' });
    area.value = this.message.content;
    const leave = () => { this.update(); this.foot.lastElementChild.focus(); };
    const send = () => { if (area.value.trim()) resend(this.message, area.value.trim()); };
    area.addEventListener('keydown', event => {
      if (sends(event)) { event.preventDefault(); send(); }
      if (event.key === 'Escape') { event.stopPropagation(); leave(); }
    });
    this.body.className = '';
    this.body.replaceChildren(area);
    this.foot.replaceChildren(button('Send', send), button('Cancel', leave));
    area.style.height = `${Math.min(area.scrollHeight + 4, 400)}px`;
    area.focus();
  }
}

class AnswerView {
  constructor(message) {
    this.message = message;
    this.thoughts = element('div', { class: 'thoughts' });
    this.details = element('details', { hidden: true }, element('summary', {}, 'Thoughts'), this.thoughts);
    this.text = element('div', { class: 'markdown' });
    this.markdown = new MarkdownView(this.text);
    this.failure = element('div', { class: 'failure', hidden: true });
    this.stats = element('span', { class: 'stats quiet' });
    const copy = button('Copy', () => copyText(this.message.content, copy));
    this.buttons = [copy, button('Regenerate', () => regenerate(this.message))];
    this.node = element('article', { class: 'message answer', 'aria-label': 'Answer' },
      element('div', { class: 'who' }, 'Answer'), this.details, this.text, this.failure,
      element('div', { class: 'foot' }, this.stats, ...this.buttons));
    this.update();
  }
  update() {
    const { message } = this;
    const running = runs.get(app.current?.id)?.message === message;
    this.details.hidden = !message.reasoning;
    if (this.thoughts.textContent !== (message.reasoning ?? '')) this.thoughts.textContent = message.reasoning ?? '';
    this.markdown.update(message.content);
    this.failure.hidden = !message.error;
    this.failure.textContent = message.error ?? '';
    this.stats.textContent = statsText(message) || (running ? 'Waiting …' : '');
    this.stats.classList.toggle('waiting', running && !message.content);
    for (const each of this.buttons) each.hidden = running;
  }
}

function viewOf(message) {
  if (!views.has(message)) views.set(message, message.role === 'user' ? new UserView(message) : new AnswerView(message));
  return views.get(message);
}

function showTitle() {
  $('title').textContent = titleOf(app.current);
  document.title = `${titleOf(app.current)} – neuronmm`;
  for (const id of ['export', 'delete', 'rename']) $(id).disabled = app.current.messages.length === 0;
}

function showConversation() {
  const conversation = app.current;
  views.clear();
  showTitle();
  editTitle(false);
  $('turns').replaceChildren(...conversation.messages.map(message => viewOf(message).node));
  $('empty').hidden = conversation.messages.length > 0;
  $('empty').textContent = app.model.model ? `Write something to ${app.model.model}.` : 'Write something to the model.';
  showUndoLine('');
  showRunning();
  scrollDown();
}

function showRunning() {
  const running = runs.has(app.current.id);
  $('stop').hidden = !running;
  $('send').hidden = running;
  showContext();
}

function showContext() {
  const stats = app.current.messages.findLast(message => message.stats?.prompt != null)?.stats;
  const limit = app.models[0]?.max_model_len ?? app.model.context_length;
  if (!stats) return;
  const used = stats.prompt + (stats.tokens ?? 0);
  $('context').textContent =
    limit ? `${number(used)} of ${number(limit)} tokens of the context are used.` : `${number(used)} tokens.`;
}

const atEnd = () => $('messages').scrollHeight - $('messages').scrollTop - $('messages').clientHeight < 60;
const scrollDown = () => { $('messages').scrollTop = $('messages').scrollHeight; };

// Gives screen readers whole sentences as they arrive, not every token.
const speech = {
  begin() { $('spoken').replaceChildren(); },
  add(run, ended) {
    const rest = run.message.content.slice(run.spoken);
    const sentences = Math.max(...['\n', '. ', '? ', '! '].map(mark => rest.lastIndexOf(mark))) + 1;
    const end = ended ? rest.length : sentences;
    if (!rest.slice(0, end).trim()) return;
    run.spoken += end;
    $('spoken').append(element('p', {}, rest.slice(0, end)));
  },
  speak(text) { $('spoken').append(element('p', {}, text)); },
};

// Shows the dialog with the settings of a conversation.

function settingInput(setting) {
  const id = `setting-${setting.name}`;
  const shared = { id, name: setting.name, autocomplete: 'off' };
  const input = setting.lines ? element('textarea', { ...shared, rows: 2 })
    : element('input', { ...shared, inputmode: setting.whole ? 'numeric' : 'decimal' });
  return element('label', { for: id }, setting.label, input,
    element('span', { class: 'hint' }, setting.hint));
}

// Returns the settings of a conversation for which the user has chosen nothing. The server tells
// them: those that the model recommends, else a moderate temperature.
function usualSettings() {
  return Object.fromEntries(kSettings.map(({ name }) => [name, app.model.defaults?.[name]])
    .filter(([, value]) => value != null));
}

function showSettings() {
  const { settings } = app.current;
  $('system').value = settings.system ?? '';
  for (const setting of kSettings) {
    const input = $(`setting-${setting.name}`);
    input.value = setting.lines ? (settings[setting.name] ?? []).join('\n') : settings[setting.name] ?? '';
    input.placeholder = `${usualSettings()[setting.name] ?? ''}`;
    input.removeAttribute('aria-invalid');
  }
  $('settings-dialog').querySelector('.wrong').textContent = '';
  $('settings-dialog').showModal();
}

// Returns the settings in the dialog. Throws an error about the first field that is wrong.
function settingsOfForm() {
  const settings = $('system').value.trim() ? { system: $('system').value } : {};
  for (const setting of kSettings) {
    const input = $(`setting-${setting.name}`);
    input.removeAttribute('aria-invalid');
    if (!input.value.trim()) continue;
    try {
      const value = setting.lines ? input.value.split('\n').filter(line => line) : Number(input.value);
      settings[setting.name] = readSetting(setting, value, setting.label);
    } catch (error) {
      input.setAttribute('aria-invalid', 'true');
      input.focus();
      throw error;
    }
  }
  return settings;
}

function saveSettings(forNewOnes) {
  const dialog = $('settings-dialog');
  try {
    app.current.settings = settingsOfForm();
  } catch (error) {
    dialog.querySelector('.wrong').textContent = error.message;
    return;
  }
  if (forNewOnes) {
    app.defaults = { ...app.current.settings };
    store.write('defaults', app.defaults);
  }
  if (app.conversations.has(app.current.id)) saveChanged(app.current);
  dialog.close();
}

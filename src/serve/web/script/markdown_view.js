// Shows a Markdown text that grows. Blocks that have not changed keep their nodes, so that nothing
// flickers and a selection stays.
class MarkdownView {
  constructor(node) {
    this.node = node;
    this.sources = [];
  }
  update(text) {
    const blocks = splitBlocks(text);
    let same = 0;
    while (same < blocks.length && blocks[same].source === this.sources[same]) ++same;
    while (this.node.children.length > same) this.node.lastElementChild.remove();
    this.node.append(...blocks.slice(same).map(block => kMakers[block.kind](block, 1)));
    this.sources = blocks.map(block => block.source);
  }
}

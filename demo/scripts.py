"""The few lines of JavaScript that belong to single components."""

from __future__ import annotations

CLICKS = """
element.addEventListener('click', (event) => {
  const button = event.target.closest('[data-act]');
  if (!button) return;
  if (button.dataset.act === 'copy') {
    const source = button.closest('.oe-call').querySelector('.oe-source');
    navigator.clipboard.writeText(source.textContent);
    button.textContent = 'Copied';
    setTimeout(() => { button.textContent = 'Copy'; }, 1500);
    return;
  }
  trigger('click', {act: button.dataset.act, at: Number(button.dataset.at)});
});
"""
"""Reports clicks on buttons inside drawn HTML; "copy" stays in the browser."""

SKETCH = """
<div class="oe-sketch">
  <canvas width="384" height="384" aria-label="sketch pad"></canvas>
  <div>
    <button type="button" class="oe-button" data-do="use">Use the sketch</button>
    <button type="button" class="oe-button oe-small" data-do="undo">Undo</button>
    <button type="button" class="oe-button oe-small" data-do="clear">Clear</button>
  </div>
</div>
"""

SKETCHING = """
const canvas = element.querySelector('canvas');
const pen = canvas.getContext('2d');
let strokes = [];
const draw = () => {
  pen.fillStyle = '#fff';
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.strokeStyle = '#111';
  pen.lineWidth = 7;
  pen.lineCap = pen.lineJoin = 'round';
  for (const stroke of strokes) {
    pen.beginPath();
    stroke.forEach(([x, y], at) => at ? pen.lineTo(x, y) : pen.moveTo(x, y));
    if (stroke.length === 1) pen.lineTo(stroke[0][0] + 0.1, stroke[0][1]);
    pen.stroke();
  }
};
const place = (event) => {
  const box = canvas.getBoundingClientRect();
  return [(event.clientX - box.left) * canvas.width / box.width,
          (event.clientY - box.top) * canvas.height / box.height];
};
canvas.addEventListener('pointerdown', (event) => {
  canvas.setPointerCapture(event.pointerId);
  strokes.push([place(event)]);
  draw();
});
canvas.addEventListener('pointermove', (event) => {
  if (!canvas.hasPointerCapture(event.pointerId)) return;
  strokes.at(-1).push(place(event));
  draw();
});
element.addEventListener('click', (event) => {
  const button = event.target.closest('[data-do]');
  if (!button) return;
  if (button.dataset.do === 'clear') strokes = [];
  if (button.dataset.do === 'undo') strokes.pop();
  draw();
  if (button.dataset.do === 'use' && strokes.length) {
    trigger('click', {act: 'sketch', at: strokes.length, image: canvas.toDataURL('image/png')});
  }
});
draw();
"""
"""Drawing with mouse, pen or finger; the picture leaves the browser only when it is used."""

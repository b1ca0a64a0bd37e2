() => {
  // Tooltips of drawings: by pointer, by keyboard, and by touch.
  const show = (event) => {
    const target = event.target.closest && event.target.closest('[data-tip]');
    if (!target) return;
    const map = target.closest('.oe-map');
    const tip = map && map.querySelector('.oe-tip');
    if (!tip) return;
    // Pilots of one data set lie on top of each other: name all of them.
    const under = event.clientX
      ? document.elementsFromPoint(event.clientX, event.clientY).filter((one) => one.dataset.tip)
      : [];
    const told = [...new Set([target, ...under].map((one) => one.dataset.tip))];
    tip.textContent = told.slice(0, 3).join('\n');
    if (told.length > 3) tip.textContent += `\nand ${told.length - 3} more here`;
    tip.hidden = false;
    const box = map.getBoundingClientRect();
    const dot = target.getBoundingClientRect();
    const left = dot.left - box.left + dot.width / 2 - tip.offsetWidth / 2;
    tip.style.left = `${Math.max(0, Math.min(left, box.width - tip.offsetWidth))}px`;
    tip.style.top = `${dot.bottom - box.top + 6}px`;
  };
  const hide = (event) => {
    const map = event.target.closest && event.target.closest('.oe-map');
    const tip = map && map.querySelector('.oe-tip');
    if (tip) tip.hidden = true;
  };
  document.addEventListener('pointerover', show);
  document.addEventListener('focusin', show);
  document.addEventListener('pointerout', hide);
  document.addEventListener('focusout', hide);
  // Light or dark: the system's choice until the visitor makes one.
  document.addEventListener('click', (event) => {
    if (event.target.closest && event.target.closest('.oe-theme')) {
      document.body.classList.toggle('dark');
    }
  });
}

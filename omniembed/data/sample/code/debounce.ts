/** Delay calls to `action` until it has not been called for `wait` milliseconds. */
export function debounce<A extends unknown[]>(action: (...args: A) => void, wait: number) {
  let timer: ReturnType<typeof setTimeout> | undefined;
  return (...args: A): void => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...args), wait);
  };
}

/** Escape the characters that mean something in HTML. */
export function escapeHtml(text: string): string {
  const entities: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text.replace(/[&<>"]/g, (character) => entities[character]);
}

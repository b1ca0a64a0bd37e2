import { EdgeError, type Pixels, type Preprocessing } from "./types.ts";

/*
 * Pillow's resize: two passes of fixed-point convolution (libImaging/Resample.c), the same to the
 * bit for pictures at most twice as tall as wide. Of taller ones a part is cut out, and Pillow 13
 * then filters columns first, other versions rows, which rounds some samples otherwise.
 * A canvas resizes otherwise in every browser, and Node has none.
 */

const PRECISION = 22;

interface Filter {
  support: number;
  at(x: number): number;
}

const FILTERS: Record<string, Filter> = {
  bilinear: { support: 1, at: (x) => Math.max(0, 1 - Math.abs(x)) },
  bicubic: { support: 2, at: bicubic },
  lanczos: { support: 3, at: (x) => (Math.abs(x) < 3 ? sinc(x) * sinc(x / 3) : 0) },
};

function bicubic(x: number): number {
  const a = -0.5;
  const d = Math.abs(x);
  if (d < 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? (((d - 5) * d + 8) * d - 4) * a : 0;
}

function sinc(x: number): number {
  return x === 0 ? 1 : Math.sin(x * Math.PI) / (x * Math.PI);
}

/** What one output sample reads. */
interface Reach {
  first: number;
  weights: Int32Array;
}

function reaches(filter: Filter, length: number, start: number, end: number, out: number): Reach[] {
  const scale = (end - start) / out;
  const stretch = Math.max(scale, 1);
  const support = filter.support * stretch;
  return Array.from({ length: out }, (_, at) => {
    const centre = start + (at + 0.5) * scale;
    const first = Math.max(0, Math.trunc(centre - support + 0.5));
    const last = Math.min(length, Math.trunc(centre + support + 0.5));
    const values = new Float64Array(last - first);
    let sum = 0;
    for (let x = 0; x < values.length; x++) {
      values[x] = filter.at((x + first - centre + 0.5) / stretch);
      sum += values[x]!;
    }
    const weights = Int32Array.from(values, (value) => {
      const fixed = (sum ? value / sum : value) * 2 ** PRECISION;
      return Math.trunc(fixed < 0 ? fixed - 0.5 : fixed + 0.5);
    });
    return { first, weights };
  });
}

/** Python's rounding: halves go to the even neighbour. */
function round(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest < 0.5 || (rest === 0.5 && floor % 2 === 0) ? floor : floor + 1;
}

/** Resizes the shorter side and cuts the centre square: RGB samples of `size` squared pixels. */
export function toSquare(picture: Pixels, how: Preprocessing): Uint8Array {
  const filter = FILTERS[how.resample];
  if (!filter) throw new EdgeError(`this module cannot resize with the filter ${how.resample}`);
  const { width, height } = picture;
  const channels = picture.channels ?? picture.data.length / (width * height);
  const count = picture.data.length;
  if (!(width > 0 && height > 0) || ![3, 4].includes(channels) || count !== width * height * channels) {
    throw new EdgeError(`${count} samples do not make ${width} x ${height} pixels of 3 or 4 channels`);
  }
  const rgb = channels === 3 ? picture.data : onWhite(picture.data);
  const side = how.size;
  const short = Math.min(width, height);
  const scale = Math.floor(side / how.crop) / short;
  // A strip is cut to a square's reach first.
  const [w, h] = [Math.min(width, short * 2), Math.min(height, short * 2)];
  const [x0, y0] = [Math.floor((width - w) / 2), Math.floor((height - h) / 2)];
  const [wide, high] = [Math.max(side, round(w * scale)), Math.max(side, round(h * scale))];
  const [left, top] = [round((wide - side) / 2), round((high - side) / 2)];
  const columns = reaches(filter, width, x0, x0 + w, wide).slice(left, left + side);
  const rows = reaches(filter, height, y0, y0 + h, high).slice(top, top + side);
  const first = Math.min(...rows.map((row) => row.first));
  const last = Math.max(...rows.map((row) => row.first + row.weights.length));
  const strip = new Uint8ClampedArray((last - first) * side * 3);
  for (let y = first; y < last; y++) {
    convolve(rgb, y * width * 3, 3, columns, 3, strip, (y - first) * side * 3);
  }
  const square = new Uint8ClampedArray(side * side * 3);
  const down = rows.map((row) => ({ first: row.first - first, weights: row.weights }));
  for (let x = 0; x < side; x++) {
    convolve(strip, x * 3, side * 3, down, side * 3, square, x * 3);
  }
  return new Uint8Array(square.buffer);
}

/** Filters one line of pixels; steps are distances between neighbours along it. */
function convolve(
  source: ArrayLike<number>,
  from: number,
  step: number,
  line: Reach[],
  outStep: number,
  out: Uint8ClampedArray,
  to: number,
): void {
  for (let at = 0; at < line.length; at++) {
    const { first, weights } = line[at]!;
    let r = 1 << (PRECISION - 1);
    let g = r;
    let b = r;
    for (let k = 0; k < weights.length; k++) {
      const pixel = from + (first + k) * step;
      const weight = weights[k]!;
      r += source[pixel]! * weight;
      g += source[pixel + 1]! * weight;
      b += source[pixel + 2]! * weight;
    }
    const place = to + at * outStep;
    out[place] = r >> PRECISION;
    out[place + 1] = g >> PRECISION;
    out[place + 2] = b >> PRECISION;
  }
}

function onWhite(data: ArrayLike<number>): Uint8ClampedArray {
  const rgb = new Uint8ClampedArray((data.length / 4) * 3);
  for (let at = 0, to = 0; at < data.length; at += 4) {
    const alpha = data[at + 3]!;
    for (let c = 0; c < 3; c++) {
      rgb[to++] = Math.round((data[at + c]! * alpha + 255 * (255 - alpha)) / 255);
    }
  }
  return rgb;
}

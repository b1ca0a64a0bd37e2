import { EdgeError, type Picture, type Pixels } from "./types.ts";

/** Turns the content of a picture file into pixels, upright and on white. */
export type Decode = (content: Uint8Array) => Promise<Pixels>;

const MAX_PIXELS = 100_000_000;
const CANVAS_PIXELS = 16_000_000; // what every browser's canvas can hold

/** Tells whether a value is a picture, in any of its forms. */
export function isPicture(value: unknown): value is Picture {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  if (value instanceof Blob || value instanceof Uint8Array) return true;
  return "width" in value && "height" in value;
}

/** Reads a picture. */
export async function toPixels(picture: Picture, decode?: Decode): Promise<Pixels> {
  if (picture instanceof Blob || picture instanceof Uint8Array) {
    if (decode) {
      const bytes =
        picture instanceof Uint8Array ? picture : new Uint8Array(await picture.arrayBuffer());
      return decode(bytes);
    }
    if (typeof createImageBitmap !== "function") {
      throw new EdgeError("outside browsers, give pixels or load with a decode function");
    }
    const blob = picture instanceof Blob ? picture : new Blob([picture as Uint8Array<ArrayBuffer>]);
    const bitmap = await open(blob);
    try {
      return draw(bitmap, bitmap.width, bitmap.height);
    } finally {
      bitmap.close();
    }
  }
  if ("data" in picture) return picture;
  if ("naturalWidth" in picture) return draw(picture, picture.naturalWidth, picture.naturalHeight);
  return draw(picture, picture.width, picture.height);
}

async function open(blob: Blob): Promise<ImageBitmap> {
  try {
    // Colours as stored, as Pillow reads them: profiles of a picture are ignored there too.
    return await createImageBitmap(blob, {
      imageOrientation: "from-image",
      colorSpaceConversion: "none",
    });
  } catch (error) {
    throw new EdgeError(`the picture cannot be decoded: ${(error as Error).message}`);
  }
}

/** Draws on white. Only pictures too large for a canvas are made smaller here. */
function draw(source: CanvasImageSource, width: number, height: number): Pixels {
  if (!(width > 0 && height > 0)) throw new EdgeError("the picture has no pixels");
  if (width * height > MAX_PIXELS) {
    throw new EdgeError(`the picture has ${width} x ${height} pixels, more than ${MAX_PIXELS}`);
  }
  const shrink = Math.min(1, Math.sqrt(CANVAS_PIXELS / (width * height)));
  const w = Math.max(1, Math.floor(width * shrink));
  const h = Math.max(1, Math.floor(height * shrink));
  const context = canvas(w, h).getContext("2d", { willReadFrequently: true }) as
    | OffscreenCanvasRenderingContext2D
    | CanvasRenderingContext2D
    | null;
  if (!context) throw new EdgeError("this browser gives no 2D canvas");
  context.imageSmoothingQuality = "high";
  context.fillStyle = "#fff";
  context.fillRect(0, 0, w, h);
  context.drawImage(source, 0, 0, w, h);
  return { data: context.getImageData(0, 0, w, h).data, width: w, height: h, channels: 4 };
}

function canvas(width: number, height: number): OffscreenCanvas | HTMLCanvasElement {
  if (typeof OffscreenCanvas === "function") return new OffscreenCanvas(width, height);
  return Object.assign(document.createElement("canvas"), { width, height });
}

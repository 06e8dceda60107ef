"""PNG, JPEG and other image files that promise gigabytes. All are to be images of 64 x 64 pixels."""

import struct
import zlib

import cv2
import numpy as np

HUGE = 20_000


def segment(marker, content, fill=b""):
    return b"\xff" + fill + bytes([marker]) + struct.pack(">H", len(content) + 2) + content


def frame(height, width, marker=0xC0, bits=8):
    """Return a JPEG frame header of three components."""
    components = b"".join(bytes([number, 0x11, 0]) for number in (1, 2, 3))
    return segment(marker, struct.pack(">BHHB", bits, height, width, 3) + components)


def jpeg(image=None, progressive=False):
    options = [cv2.IMWRITE_JPEG_PROGRESSIVE, int(progressive)]
    image = np.zeros((64, 64, 3), np.uint8) if image is None else image
    return cv2.imencode(".jpg", image, options)[1].tobytes()


def before_frame(data):
    """Return the parts of a JPEG before, of and after its frame header."""
    begin = next(n for n in range(2, len(data)) if data[n] == 0xFF and data[n + 1] in (0xC0, 0xC2))
    end = begin + 2 + int.from_bytes(data[begin + 2 : begin + 4], "big")
    return data[:begin], data[begin:end], data[end:]


def resized_jpeg(height, width):
    """Return a JPEG whose header says another size than its data."""
    head, old, rest = before_frame(jpeg())
    return head + old[:5] + struct.pack(">HH", height, width) + old[9:] + rest


def fill_byte_jpeg():
    """A comment whose marker has a fill byte hides a harmless frame header from readers that forget fill bytes."""
    fake = frame(64, 64)
    _, old, rest = before_frame(resized_jpeg(HUGE, HUGE))
    # Whoever takes 0xFF for a marker reads its length from the marker and the first byte of the true length.
    hidden = bytes(0xFEFC) + fake + bytes(16)
    return b"\xff\xd8" + segment(0xFE, hidden, b"\xff") + jpeg_tables() + old + rest


def jpeg_tables():
    return before_frame(jpeg())[0][2:]


def comment_jpeg():
    _, old, rest = before_frame(resized_jpeg(HUGE, HUGE))
    return b"\xff\xd8" + segment(0xFE, frame(64, 64)) + jpeg_tables() + old + rest


def garbage_jpeg():
    """Bytes between segments, which decoders skip."""
    _, old, rest = before_frame(resized_jpeg(HUGE, HUGE))
    return b"\xff\xd8" + jpeg_tables() + b"\x00" * 8 + old + rest


def two_frames_jpeg():
    head, old, rest = before_frame(resized_jpeg(HUGE, HUGE))
    return head + old + frame(64, 64) + rest


def many_scans_jpeg():
    """The last scan of a progressive JPEG of the declared size, 20,000 times."""
    data = jpeg(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8), progressive=True)
    begin = data.rfind(b"\xff\xda")
    return data[:begin] + data[begin:-2] * 20_000 + b"\xff\xd9"


def chunk(name, content):
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def png(height, width, bits=8, colours=2, interlaced=0, before=b"", data=b""):
    header = struct.pack(">IIBBBBB", width, height, bits, colours, 0, 0, interlaced)
    content = zlib.compress(data or bytes(100_000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + before + chunk(b"IDAT", content) + chunk(b"IEND", b"")


def whole_png(before):
    """Return a sound PNG of 64 x 64 pixels, with chunks before its data."""
    return png(64, 64, before=before, data=bytes(64 * (1 + 64 * 3)))


def expanding_text():
    expander = zlib.compressobj(9)
    packed = b"".join(expander.compress(bytes(2**24)) for _ in range(16)) + expander.flush()
    return chunk(b"zTXt", b"note\x00\x00" + packed) + chunk(b"iCCP", b"icc\x00\x00" + packed)


def animation():
    control = struct.pack(">IIIIIHHBB", 0, HUGE, HUGE, 0, 0, 1, 1, 0, 0)
    return chunk(b"acTL", struct.pack(">II", 10**6, 0)) + chunk(b"fcTL", control)


def bmp():
    header = struct.pack("<IiiHHIIiiII", 40, HUGE, HUGE, 1, 24, 0, 0, 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + 1000, 0, 0, 54) + header + bytes(1000)


def gif():
    return (
        b"GIF89a" + struct.pack("<HHBBB", 65535, 65535, 0xF0, 0, 0) + bytes(6) + b",\0\0\0\0\xff\xff\xff\xff\0\2\1,\0;"
    )


def tiff():
    tags = [(256, 4, 1, 60_000), (257, 4, 1, 60_000), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, 1, 8)]
    entries = b"".join(struct.pack("<HHII", *tag) for tag in (*tags, (278, 4, 1, 60_000), (279, 4, 1, 100)))
    return b"II*\x00\x08\x00\x00\x00" + struct.pack("<H", 8) + entries + bytes(104)


IMAGES = {
    "jpeg_fill_byte": fill_byte_jpeg,
    "jpeg_frame_in_comment": comment_jpeg,
    "jpeg_garbage": garbage_jpeg,
    "jpeg_two_frames": two_frames_jpeg,
    "jpeg_size": lambda: resized_jpeg(30_000, 30_000),
    "jpeg_no_height": lambda: resized_jpeg(0, 65_000),
    "jpeg_many_scans": many_scans_jpeg,
    "jpeg_arithmetic": lambda: b"\xff\xd8" + frame(64, 64, 0xC9) + jpeg()[2:],
    "jpeg_12_bit": lambda: b"\xff\xd8" + frame(64, 64, bits=12) + jpeg()[2:],
    "png_size": lambda: png(HUGE, HUGE),
    "png_16_bit_rgba": lambda: png(HUGE, HUGE, 16, 6),
    "png_interlaced": lambda: png(65_000, 65_000, 1, 0, 1),
    "png_text": lambda: whole_png(expanding_text()),
    "png_animation": lambda: whole_png(animation()),
    "bmp": bmp,
    "gif": gif,
    "tiff": tiff,
}
"""Makes the bytes of a file, by name."""

HARMLESS_WHEN_REDUCED = {"png_text", "png_animation"}
"""Images of the declared size: what they have beside it is left out, and they are read."""

"""Features of one photograph: python3 features.py PHOTO FOLDER writes FOLDER/features.json and FOLDER/thumbnail.png.

A program as a user would write it: a file in, files out, no Tidemill in it.
"""

import json
import sys
from pathlib import Path

from PIL import Image, ImageFilter, ImageStat


def features(photo: Path) -> dict:
    """Sharpness (variance of the edges), contrast (standard deviation) and mean colour of a photograph, 0 to 255."""
    image = Image.open(photo).convert("RGB")
    grey = image.convert("L")
    return {
        "photo": photo.name,
        "size": list(image.size),
        "sharpness": round(ImageStat.Stat(grey.filter(ImageFilter.FIND_EDGES)).var[0], 3),
        "contrast": round(ImageStat.Stat(grey).stddev[0], 3),
        "colour": [round(mean, 3) for mean in ImageStat.Stat(image).mean],
    }


if __name__ == "__main__":
    photo, folder = Path(sys.argv[1]), Path(sys.argv[2])
    found = features(photo)
    print(f"sharpness {found['sharpness']}")
    (folder / "features.json").write_text(json.dumps(found))
    image = Image.open(photo)
    image.thumbnail((32, 32))
    image.save(folder / "thumbnail.png")

"""The built-in formats, one file per family. Every file is loaded with the package."""

from importlib import import_module
from pkgutil import iter_modules

for _file in iter_modules(__path__, f"{__name__}."):
    import_module(_file.name)

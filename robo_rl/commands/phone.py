"""robo-rl phone: the pages of robo-rl web for a phone in the local network, and how the phone comes to trust them."""

from omegaconf import DictConfig

from ..core import ConfigError
from ..operators.page_address import has_own_authority, page_settings
from . import web

GUIDE = """
1. Connect the phone to the same network, and scan the code with its camera.
2. The browser warns, because it does not know the certificate yet. Accept it for this address ("Advanced", then
   "Proceed"; iPhone: "Show Details", then "visit this website"), or install it as above:
   iPhone: Settings, General, VPN & Device Management; then About, Certificate Trust Settings.
   Android: Settings, Security, Install a certificate, CA certificate.
3. Watch runs, and label or edit data sets under "Data". To drive a robot or to answer questions, start a command with
   web.address=lan:PORT, for example robo-rl record task=pick_cube record.source=browser web.address=lan:8091. Its page
   is linked under "Open pages"."""


def run(config: DictConfig) -> int:
    """Serve the pages until Ctrl-C.

    Raises:
        ConfigError: if this machine has no address in a private network, the address is one that no phone can reach,
            or as for ``robo-rl web``.
    """
    settings = page_settings(config)
    if settings.is_local:
        raise ConfigError(
            f"web.address {settings.address} can be reached from this machine alone: use web.address=lan:PORT, or "
            "robo-rl web"
        )
    return web.serve(config, settings, GUIDE if has_own_authority(settings) else "")

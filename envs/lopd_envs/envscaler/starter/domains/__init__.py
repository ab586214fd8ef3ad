"""The domains, one file each. Those in `HELD_OUT_DOMAINS` are never trained on."""

from __future__ import annotations

from lopd_envs.envscaler.starter.domains.billing import Billing
from lopd_envs.envscaler.starter.domains.calendar import Calendar
from lopd_envs.envscaler.starter.domains.clinic import Clinic
from lopd_envs.envscaler.starter.domains.garage import Garage
from lopd_envs.envscaler.starter.domains.helpdesk import Helpdesk
from lopd_envs.envscaler.starter.domains.hotel import Hotel
from lopd_envs.envscaler.starter.domains.library import Library
from lopd_envs.envscaler.starter.domains.orders import Orders
from lopd_envs.envscaler.starter.domains.school import School
from lopd_envs.envscaler.starter.domains.warehouse import Warehouse
from lopd_envs.envscaler.starter.world import World

_TRAIN: tuple[type[World], ...] = (
    Library,
    Orders,
    Calendar,
    Helpdesk,
    Clinic,
    Hotel,
    Warehouse,
    Billing,
)
_HELD_OUT: tuple[type[World], ...] = (Garage, School)

DOMAINS: dict[str, type[World]] = {world.name: world for world in _TRAIN + _HELD_OUT}
TRAIN_DOMAINS: tuple[str, ...] = tuple(world.name for world in _TRAIN)
HELD_OUT_DOMAINS: tuple[str, ...] = tuple(world.name for world in _HELD_OUT)

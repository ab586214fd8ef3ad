"""The airline: flights, reservations, and what its customers have in cash and at the bank.

It is as forgiving as upstream's, since end states are compared: seats are not counted, a change of
flight costs nothing, a cabin of an unknown name is free, a cancelled reservation stays in the list.
"""

from __future__ import annotations

from typing import Any

from lopd_envs.acebench.scenes.base import Answer, App

_FREE_BAGS = {"regular": (1, 2), "silver": (2, 3), "gold": (3, 3)}
"""Bags that cost nothing, by membership: in economy, in business."""
_BAG_PRICE = 50


class Travel(App):
    """Booking, changing and cancelling flights."""

    TOOLS = (
        "get_user_details",
        "get_flight_details",
        "get_reservation_details",
        "find_transfer_flights",
        "reserve_flight",
        "modify_flight",
        "cancel_reservation",
    )
    SCORED = ("users", "reservations")

    def __init__(self, language: str, world: dict[str, Any]) -> None:
        super().__init__(language)
        self._flights: list[dict[str, Any]] = world["flights"]
        self._cabins = (self.say("economy"), self.say("business"))
        self.users: dict[str, dict[str, Any]] = world["travellers"]
        self.reservations: list[dict[str, Any]] = world["reservations"]

    def get_user_details(self, user_id: str, password: str) -> Answer:
        """Return a customer's record, without the password."""
        user = self._customer(user_id, password)
        if user is None:
            return self.no("no_user")
        return {name: value for name, value in user.items() if name != "password"}

    def get_flight_details(
        self, origin: str | None = None, destination: str | None = None
    ) -> list[dict[str, Any]] | str:
        """Return the flights from, to, or between cities."""
        found = [
            flight
            for flight in self._flights
            if (not origin or flight["origin"] == origin)
            and (not destination or flight["destination"] == destination)
        ]
        return found or self.say("no_flights")

    def get_reservation_details(
        self, reservation_id: str | None = None, user_id: str | None = None
    ) -> list[dict[str, Any]] | Answer:
        """Return one reservation, or all of a customer, with their flights."""
        if not reservation_id and not user_id:
            return self.no("which")
        name, wanted = (
            ("reservation_id", reservation_id) if reservation_id else ("user_id", user_id)
        )
        return [
            {**entry, "flight_info": self._flight(entry["flight_no"])}
            for entry in self.reservations
            if entry[name] == wanted
        ]

    def find_transfer_flights(
        self, origin_city: str, transfer_city: str, destination_city: str
    ) -> list[dict[str, Any]] | str:
        """Return pairs of flights over a city, the second leaving after the first arrives."""
        found = [
            {"first_leg": first, "second_leg": second}
            for first in self._flights
            if (first["origin"], first["destination"]) == (origin_city, transfer_city)
            for second in self._flights
            if (second["origin"], second["destination"]) == (transfer_city, destination_city)
            and first["arrival_time"] < second["depart_time"]
        ]
        return found or self.say("no_flights")

    def reserve_flight(
        self,
        user_id: str,
        password: str,
        flight_no: str,
        cabin: str,
        payment_method: str,
        baggage_count: int,
    ) -> str:
        """Book a flight and pay for it."""
        user, flight = self._customer(user_id, password), self._flight(flight_no)
        if user is None:
            return self.say("no_user")
        if flight is None:
            return self.say("no_flight")
        if cabin not in self._cabins:
            return self.say("no_cabin")
        bags = max(baggage_count - self._free_bags(user, cabin), 0)
        total = self._prices(flight)[cabin] + bags * _BAG_PRICE
        if payment_method not in ("cash", "bank"):
            return self.say("no_payment")
        if not self._pay(user, payment_method, total):
            return self.say("no_money")
        flight["seats_available"] -= 1
        number = f"res_{len(self.reservations) + 1}"
        self.reservations.append(
            {
                "reservation_id": number,
                "user_id": user_id,
                "flight_no": flight_no,
                "payment_method": payment_method,
                "cabin": cabin,
                "baggage": baggage_count,
            }
        )
        return self.say("booked", number=number, total=total)

    def modify_flight(
        self,
        user_id: str,
        reservation_id: str,
        new_flight_no: str | None = None,
        new_cabin: str | None = None,
        add_baggage: int = 0,
        new_payment_method: str | None = None,
    ) -> str:
        """Change flight, cabin and luggage of a reservation, in this order."""
        entry = self._reservation(user_id, reservation_id)
        if entry is None:
            return self.say("no_reservation")
        flight, user = self._flight(entry["flight_no"]), self.users[user_id]
        if flight is None:
            return self.say("no_flight")
        payment, said = new_payment_method or entry["payment_method"], []
        if new_flight_no and new_flight_no != entry["flight_no"]:
            other = self._flight(new_flight_no)
            if other is None or _route(other) != _route(flight):
                return self.say("other_route")
            entry["flight_no"] = new_flight_no
            said.append(self.say("moved"))
        if new_cabin and new_cabin != entry["cabin"]:
            said += self._change_cabin(entry, self._prices(flight), new_cabin, user, payment)
        if add_baggage > 0:
            said += self._add_bags(entry, add_baggage, user, payment)
        return " ".join(said) or self.say("unchanged")

    def cancel_reservation(self, user_id: str, reservation_id: str, reason: str) -> str:
        """Pay a reservation's price back in cash.

        Upstream's clock stands more than a day before every departure, so no fee is ever due.
        """
        entry = self._reservation(user_id, reservation_id)
        if entry is None:
            return self.say("no_reservation")
        flight = self._flight(entry["flight_no"])
        if flight is None:
            return self.say("no_flight")
        economy, business = self._prices(flight).values()
        price = economy if entry["cabin"] == self._cabins[0] else business
        self.users[user_id]["cash_balance"] += price
        return self.say("cancelled", price=price)

    # -- helpers -----------------------------------------------------------------------------

    def _customer(self, user_id: str, password: str) -> dict[str, Any] | None:
        user = self.users.get(user_id)
        return user if user is not None and user["password"] == password else None

    def _flight(self, number: str) -> dict[str, Any] | None:
        """Return the first flight of this number; some numbers fly twice."""
        return next((f for f in self._flights if f["flight_no"] == number), None)

    def _reservation(self, user_id: str, reservation_id: str) -> dict[str, Any] | None:
        wanted = (user_id, reservation_id)
        entries = self.reservations
        return next((r for r in entries if (r["user_id"], r["reservation_id"]) == wanted), None)

    def _prices(self, flight: dict[str, Any]) -> dict[str, int]:
        prices = (flight["economy_price"], flight["business_price"])
        return dict(zip(self._cabins, prices, strict=True))

    def _free_bags(self, user: dict[str, Any], cabin: str) -> int:
        economy, business = _FREE_BAGS[user["membership_level"]]
        return {self._cabins[0]: economy, self._cabins[1]: business}.get(cabin, 0)

    def _pay(self, user: dict[str, Any], method: str, amount: float) -> bool:
        """Take an amount from cash or bank; a negative amount is given. Other methods are free."""
        account = f"{method}_balance"
        if account not in ("cash_balance", "bank_balance"):
            return True
        if user[account] < amount:
            return False
        user[account] -= amount
        return True

    def _change_cabin(
        self,
        entry: dict[str, Any],
        prices: dict[str, int],
        cabin: str,
        user: dict[str, Any],
        payment: str,
    ) -> list[str]:
        """Move to another cabin of the old flight's prices; it counts even where it is not paid."""
        due = prices.get(cabin, 0) - prices.get(entry["cabin"], 0)
        entry["cabin"] = cabin
        if due == 0:
            return []
        if not self._pay(user, payment, due):
            return [self.say("unpaid", price=due)]
        return [self.say("cabin_paid" if due > 0 else "cabin_refunded", price=abs(due))]

    def _add_bags(
        self, entry: dict[str, Any], count: int, user: dict[str, Any], payment: str
    ) -> list[str]:
        """Add luggage, which counts even where it is not paid; all of it is charged each time."""
        total = entry["baggage"] + count
        due = max(0, total - self._free_bags(user, entry["cabin"])) * _BAG_PRICE
        paid = self._pay(user, payment, due)
        entry["baggage"] = total
        if due == 0:
            return []
        return [self.say("luggage_paid" if paid else "unpaid", price=due)]


def _route(flight: dict[str, Any]) -> tuple[str, str]:
    return flight["origin"], flight["destination"]

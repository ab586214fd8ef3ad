"""The phone's messages and reminders."""

from __future__ import annotations

from typing import Any

from lopd_envs.acebench.scenes.base import Answer, App, Device

_CAPACITY = 6
"""How many messages, and how many reminders, the phone holds."""


class Messages(App):
    """Text messages between the contacts. A sent message has no time, as upstream's have none."""

    TOOLS = (
        "send_message",
        "delete_message",
        "view_messages_between_users",
        "search_messages",
        "get_latest_message_id",
        "get_earliest_message_id",
    )
    SCORED = ("inbox",)

    def __init__(self, language: str, world: dict[str, Any], device: Device) -> None:
        super().__init__(language)
        self._device = device
        self._contacts: dict[str, str] = world["contacts"]
        self.inbox: dict[int, dict[str, Any]] = {int(n): m for n, m in world["inbox"].items()}
        self._last = max(self.inbox)

    def send_message(self, sender_name: str, receiver_name: str, message: str) -> Answer:
        """Send a message, which takes room in the inbox."""
        if not self._device.logged_in:
            return self.no("device_off")
        if not self._device.wifi:
            return self.no("wifi_off")
        if len(self.inbox) >= _CAPACITY:
            return self.no("full")
        if sender_name not in self._contacts or receiver_name not in self._contacts:
            return self.no("no_person")
        self._last += 1
        self.inbox[self._last] = {
            "sender_id": self._contacts[sender_name],
            "receiver_id": self._contacts[receiver_name],
            "message": message,
        }
        return self.yes("sent", name=receiver_name)

    def delete_message(self, message_id: int) -> Answer:
        """Delete a message."""
        if not self._device.logged_in:
            return self.no("device_off")
        if message_id not in self.inbox:
            return self.no("no_message")
        del self.inbox[message_id]
        return self.yes("deleted", number=message_id)

    def view_messages_between_users(self, sender_name: str, receiver_name: str) -> Answer:
        """Return what one contact sent to another."""
        if not self._device.logged_in:
            return self.no("device_off")
        if sender_name not in self._contacts or receiver_name not in self._contacts:
            return self.no("no_person")
        pair = (self._contacts[sender_name], self._contacts[receiver_name])
        found = [
            {"id": n, "sender": sender_name, "receiver": receiver_name, "message": m["message"]}
            for n, m in self.inbox.items()
            if (m["sender_id"], m["receiver_id"]) == pair
        ]
        return {"status": True, "messages": found} if found else self.no("no_message")

    def search_messages(self, user_name: str, keyword: str) -> Answer:
        """Return the messages of a contact, sent or received, that hold a keyword."""
        if user_name not in self._contacts:
            return self.no("no_person")
        user, wanted = self._contacts[user_name], keyword.lower()
        found = [
            {"id": n, **{k: m[k] for k in ("sender_id", "receiver_id", "message")}}
            for n, m in self.inbox.items()
            if user in (m["sender_id"], m["receiver_id"]) and wanted in m["message"].lower()
        ]
        return {"status": True, "messages": found} if found else self.no("no_message")

    def get_latest_message_id(self) -> Answer:
        """Return the number of the newest message."""
        return self._by_time(newest=True)

    def get_earliest_message_id(self) -> Answer:
        """Return the number of the oldest message."""
        return self._by_time(newest=False)

    def _by_time(self, *, newest: bool) -> Answer:
        if not self._device.logged_in:
            return self.no("device_off")
        if not self.inbox:
            return self.no("no_message")
        # A KeyError where a message was sent before: upstream cannot compare those either.
        number = (max if newest else min)(self.inbox, key=lambda n: self.inbox[n]["time"])
        return self.yes("message_id", number=number) | {"message_id": number}


class Reminders(App):
    """Reminders by title."""

    TOOLS = ("view_reminder_by_title", "add_reminder")
    SCORED = ("reminder_list",)

    def __init__(self, language: str, world: dict[str, Any], device: Device) -> None:
        super().__init__(language)
        self._device = device
        self.reminder_list: dict[int, dict[str, Any]] = {
            int(n): r for n, r in world["reminders"].items()
        }

    def view_reminder_by_title(self, title: str) -> Answer:
        """Return the reminder with exactly this title."""
        if not self._device.logged_in:
            return self.no("device_off")
        for reminder in self.reminder_list.values():
            if reminder["title"] == title:
                return {"status": True, "reminder": reminder}
        return self.no("no_reminder", title=title)

    def add_reminder(self, title: str, description: str, time: str) -> Answer:
        """Add a reminder."""
        if not self._device.logged_in:
            return self.no("device_off")
        if len(self.reminder_list) >= _CAPACITY:
            return self.no("full")
        number = max(self.reminder_list) + 1
        self.reminder_list[number] = {
            "reminder_id": number,
            "title": title,
            "description": description,
            "time": time,
            "notified": False,
        }
        return self.yes("noted", title=title)

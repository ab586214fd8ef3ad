"""The food platform: accounts with a balance, merchants with a menu, orders."""

from __future__ import annotations

from typing import Any

from lopd_envs.acebench.scenes.base import Answer, App, Device


class FoodPlatform(App):
    """Takeaway orders, paid from the balance of whoever is logged in."""

    TOOLS = ("login_food_platform", "check_balance", "add_food_delivery_order", "get_products")
    SCORED = ("users", "logged_in_users", "orders")

    def __init__(self, language: str, world: dict[str, Any], device: Device) -> None:
        super().__init__(language)
        self._device = device
        self._menus: dict[str, list[dict[str, Any]]] = world["menus"]
        # Upstream's Chinese platform refuses an order that would empty the account.
        self._may_empty = language == "en"
        self.users: dict[str, dict[str, Any]] = world["diners"]
        self.logged_in_users: list[str] = []
        self.orders: list[dict[str, Any]] = []

    def login_food_platform(self, username: str, password: str) -> Answer:
        """Log an account in."""
        if not self._device.wifi:
            return self.no("wifi_off")
        if username not in self.users:
            return self.no("no_account")
        if self.users[username]["password"] != password:
            return self.no("wrong_password")
        if username in self.logged_in_users:
            return self.no("already_in", name=username)
        self.logged_in_users.append(username)
        return self.yes("logged_in", name=username)

    def check_balance(self, user_name: str) -> float:
        """Return an account's balance in yuan; 0 where there is no such account."""
        account = self.users.get(user_name)
        return 0.0 if account is None else float(account["balance"])

    def get_products(self, merchant_name: str) -> list[dict[str, Any]] | Answer:
        """Return a merchant's menu."""
        return self._menus.get(merchant_name) or self.no("no_merchant", name=merchant_name)

    def add_food_delivery_order(
        self, username: str, merchant_name: str, items: list[dict[str, Any]]
    ) -> Answer:
        """Order items of one merchant; ``quantity`` of an item is 1 unless given."""
        if username not in self.logged_in_users:
            return self.no("not_in", name=username)
        if merchant_name not in self._menus:
            return self.no("no_merchant", name=merchant_name)
        prices = {entry["product"]: entry["price"] for entry in self._menus[merchant_name]}
        lines = []
        for item in items:
            product, quantity = item.get("product"), item.get("quantity", 1)
            if not isinstance(quantity, int) or quantity <= 0:
                return self.no("bad_quantity", quantity=quantity, product=product)
            if product not in prices:
                return self.no("no_product", merchant=merchant_name, product=product)
            price = prices[product]
            lines.append({"product": product, "quantity": quantity, "price_per_unit": price})
        total = sum((line["price_per_unit"] * line["quantity"] for line in lines), 0.0)
        account = self.users[username]
        left = account["balance"] - total
        if left < 0 or (left == 0 and not self._may_empty):
            return self.no("no_money")
        account["balance"] = left
        order = {"user_name": username, "merchant_name": merchant_name}
        self.orders.append({**order, "items": lines, "total_price": total})
        return self.yes("ordered", merchant=merchant_name, total=total)

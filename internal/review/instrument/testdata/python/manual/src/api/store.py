import asyncpg, httpx
from fastapi import FastAPI

app = FastAPI()


class Store:
    def __init__(self, client: "httpx.AsyncClient", pool: asyncpg.Pool):
        self.client = client
        self.pool = pool

    async def load(self, order: str):
        async with httpx.AsyncClient(base_url="https://items.example") as client:
            await client.get(f"/items/{order}", headers={"accept": "application/json"})
        await self.client.request("PURGE", "/items")
        connection = await asyncpg.connect("postgresql://db")
        return await connection.fetchrow(f"SELECT * FROM {order}")

    async def orders(self):
        async with self.pool.acquire() as connection:
            return [row async for row in connection.cursor("SELECT id FROM orders")], await (
                connection
                .fetch("SELECT id FROM orders", timeout=5)
            )


def orders():
    return []

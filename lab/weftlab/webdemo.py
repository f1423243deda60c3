"""`make demo DEMO=web`: the console over a real Keystone, until Enter."""

from __future__ import annotations

import os
import re
import sys

import httpx

from weft.web.sessions import COOKIE
from weftlab.bootstrap import ACCOUNTS, SECRET
from weftlab.gpudemo import Demo

POD = """\
name: demo
nodes: {count: 2, flavor: gpu8, image: tiny}
locality: {required: site, preferred: leaf}
"""
USERS = {"tenant": "team-a", "operator": "operator"}
"""Who signs in -> account of the lab."""
SIGN_IN_SECONDS = 60.0


class WebDemo(Demo):
    """Serves the console; orders one pod, so that there is something to see."""

    proved = "the console was served"

    def run(self) -> None:
        url = self.lab.layout.url("weft")
        (self.folder / "pod.yaml").write_text(POD)
        self.say("a pod of the tenant")
        self.weft("pod", "create", "-f", "pod.yaml", "--wait")
        self.say("both users sign in, and see their pages")
        for who, account in USERS.items():
            print(f"{who}: {self._look(url, account, '/ui/site/nodes' if who == 'operator' else '/ui/')}")
        port = self.lab.layout.port("weft")
        self.say("the console")
        print(f"address:  {url}/ui/   (from another machine first: ssh -L {port}:127.0.0.1:{port} HERE)")
        for who, account in USERS.items():
            user, project = ACCOUNTS[account]
            print(f"{who + ':':<9} user {user}, domain Default, password {SECRET}; project {project}")
        self._wait()

    def _look(self, url: str, account: str, path: str) -> str:
        """The heading of a page, after signing in as a browser does."""
        user, project = ACCOUNTS[account]
        with httpx.Client(base_url=url, trust_env=False, timeout=SIGN_IN_SECONDS) as client:
            given = {"method": "password", "user": user, "domain": "Default", "password": SECRET}
            cookie = _sent(client, "/ui/sign-in", given, "", user)
            page = client.get("/ui/project", headers={"Cookie": cookie})
            named = rf'name="project" value="([^"]+)">{re.escape(project)}<'
            chosen, csrf = re.search(named, page.text), re.search(r'name="csrf" value="([^"]+)"', page.text)
            if chosen and csrf:
                cookie = _sent(client, "/ui/project", {"project": chosen[1], "csrf": csrf[1]}, cookie, user)
            page = client.get(path, headers={"Cookie": cookie})
        heading = re.search(r"<h1>(.*?)</h1>", page.text)
        if page.status_code != 200 or heading is None:
            raise SystemExit(f"weft demo: {path} isn't shown to {user}: {page.status_code}")
        return f"{page.request.url} shows {heading[1]}"

    def _wait(self) -> None:
        """Wait for Enter or Ctrl-C; without a terminal return at once."""
        if sys.stdin is None or sys.stdin.closed or not os.isatty(sys.stdin.fileno()):
            print("no terminal: the demo ends here", flush=True)
            return
        print("Enter ends it, and takes everything down.", flush=True)
        try:
            sys.stdin.readline()
        except KeyboardInterrupt:
            print()


def _sent(client: httpx.Client, path: str, form: dict[str, str], cookie: str, user: str) -> str:
    """The cookie of the session that a form begins."""
    headers = {"Sec-Fetch-Site": "same-origin", **({"Cookie": cookie} if cookie else {})}
    answer = client.post(path, data=form, headers=headers)
    fresh = answer.headers.get("set-cookie", "").partition(";")[0]
    if answer.status_code != 303 or not fresh.startswith(f"{COOKIE}="):
        raise SystemExit(f"weft demo: {user} can't sign in: {answer.status_code}")
    return fresh

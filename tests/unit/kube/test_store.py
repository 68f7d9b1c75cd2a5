from accelet.kube.watching.store import Change, Item, Store


def item(name: str, version: int, uid: str = "") -> Item[str]:
    return Item(("ml", name), uid or f"uid-{name}", str(version), f"{name}@{version}")


def key(name: str) -> tuple[str, str]:
    return ("ml", name)


def filled() -> Store[str]:
    store = Store[str]()
    store.replace([item("a", 1), item("b", 2)], [], "5")
    return store


def test_list_adds_changes_and_deletes() -> None:
    store = filled()
    assert store.replace([item("b", 6), item("c", 7)], [], "8") == [
        Change("deleted", key("a"), "a@1", None),
        Change("modified", key("b"), "b@2", "b@6"),
        Change("added", key("c"), None, "c@7"),
    ]
    assert sorted(store) == ["b@6", "c@7"]
    assert store.resource_version == "8"


def test_unchanged_objects_are_no_change() -> None:
    assert filled().replace([item("a", 1), item("b", 2)], [], "9") == []


def test_same_name_made_anew_is_deleted_and_added() -> None:
    store = filled()
    assert store.put(item("a", 6, uid="other")) == [
        Change("deleted", key("a"), "a@1", None),
        Change("added", key("a"), None, "a@6"),
    ]
    assert sorted(store) == ["a@6", "b@2"]


def test_events_that_a_list_has_overtaken_are_ignored() -> None:
    store = filled()
    assert store.put(item("z", 4)) == []
    assert store.remove(key("a"), "5") == []
    assert len(store) == 2
    assert store.remove(key("a"), "6") == [Change("deleted", key("a"), "a@1", None)]


def test_unreadable_object_keeps_its_last_readable_form() -> None:
    store = filled()
    assert store.replace([item("a", 1)], [key("b")], "9") == []
    assert store.get(key("b")) == "b@2"


def test_bookmark_only_moves_forward() -> None:
    store = filled()
    store.advance("9")
    store.advance("7")
    assert store.resource_version == "9"


def test_versions_that_are_no_numbers_are_taken_as_they_come() -> None:
    store = Store[str]()
    store.replace([], [], "abc")
    assert store.put(Item(key("a"), "u", "abb", "a")) == [Change("added", key("a"), None, "a")]

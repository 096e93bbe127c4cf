

for file in sorted(pathlib.Path(__file__).resolve().parent.glob("*/*/facts.json")):
    facts = json.loads(file.read_bytes())
    with (file.parent / "history.jsonl").open("rb") as history:
        send(facts["run"], [json.loads(line) for line in history], facts["checkpoint"])

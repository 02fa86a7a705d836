const words = new Map([['1', 'telemetry'], ['2', 'instrumentation']]);

exports.lookup = async (id) => ({ id, word: words.get(id) ?? null });

package conformance.adapter;

/** A range of versions in the form of definitions: "3-5", "2+", "4" or "none", with both ends included. */
record Versions(int lowest, int highest) {

    static Versions of(Object text) {
        String range = String.valueOf(text);
        if (range.equals("none"))
            return new Versions(1, 0);
        if (range.endsWith("+"))
            return new Versions(Integer.parseInt(range.substring(0, range.length() - 1)), Short.MAX_VALUE);
        int dash = range.indexOf('-');
        return new Versions(Integer.parseInt(dash < 0 ? range : range.substring(0, dash)),
            Integer.parseInt(range.substring(dash + 1)));
    }

    boolean isNone() {
        return lowest > highest;
    }

    boolean has(int version) {
        return lowest <= version && version <= highest;
    }
}

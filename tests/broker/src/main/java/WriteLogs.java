public final class WriteLogs { public static void main(String[] a) {} }

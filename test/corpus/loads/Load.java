// SPDX-License-Identifier: Apache-2.0
// Two seconds of Java: the compiler, which runs this file, then collections, texts, hashes, threads.
import java.math.BigInteger;
import java.security.MessageDigest;
import java.util.*;
import java.util.stream.*;
import java.util.zip.*;

public class Load {
	static Random random;

	static String word()
	{
		return random.ints(1 + random.nextInt(8), 'a', 'i')
			.mapToObj(c -> String.valueOf((char)c)).collect(Collectors.joining());
	}

	static int deep(int n)
	{
		return n > 0 ? 1 + deep(n - 1) : IntStream.range(0, 50).map(i -> i * i).sum();
	}

	static long work(List<String> words) throws Exception
	{
		String text = String.join(" ", words);
		MessageDigest digest = MessageDigest.getInstance("SHA-256");
		CRC32 crc = new CRC32();
		Map<String, Long> count = words.stream().collect(
			Collectors.groupingBy(w -> w, TreeMap::new, Collectors.counting()));

		for (int i = 0; i < 30; i++) {
			Deflater deflater = new Deflater();
			deflater.setInput(digest.digest(text.getBytes()));
			deflater.finish();
			crc.update(deflater.deflate(new byte[1000]));
			deflater.end();
			crc.update(deep(100));
			crc.update(text.replaceAll("\\b(\\w)(\\w*)", "$2$1").hashCode());
			try {
				if (i % 3 != 0)
					throw new IllegalStateException(words.get(i));
			} catch (IllegalStateException error) {
				crc.update(error.getMessage().getBytes());
			}
		}
		return crc.getValue() + count.size();
	}

	public static void main(String[] arguments) throws Exception
	{
		random = new Random(Long.parseLong(arguments[0]));
		List<String> words = Stream.generate(Load::word).limit(60000).collect(Collectors.toList());
		long told = words.parallelStream().sorted(Comparator.reverseOrder()).limit(100)
			.mapToLong(String::hashCode).sum();

		for (int i = 0; i < 3; i++)
			told += work(words);
		System.gc();
		System.out.println(told + " " + BigInteger.probablePrime(1500, random).bitLength());
	}
}

// SPDX-License-Identifier: Apache-2.0
// Waits for input, for other threads, for a timer, a child and a monitor.
import java.util.concurrent.LinkedBlockingQueue;

public class Waits {
	public static void main(String[] args) throws Exception {
		LinkedBlockingQueue<Integer> queue = new LinkedBlockingQueue<>();
		Object monitor = new Object();
		Thread worker = new Thread(() -> {
			try {
				while (queue.take() >= 0) {
					synchronized (monitor) {
						Thread.sleep(30);
					}
				}
			} catch (InterruptedException e) {
				Thread.currentThread().interrupt();
			}
		});

		worker.start();
		for (int c = System.in.read(); c >= 0; c = System.in.read())
			queue.put(c);
		synchronized (monitor) {
			monitor.wait(50);
		}
		new ProcessBuilder("sleep", "0.2").start().waitFor();
		queue.put(-1);
		worker.join();
	}
}

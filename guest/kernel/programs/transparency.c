/* Memory work without exceptions, other CPUs or changes of mapping, so that RAM
 * must end up equal whatever stands between the program and memory. */
#include <frame.h>
#include <kernel.h>
#include <mm.h>

#define WORDS (PAGE_SIZE << ORDER_64K >> 3)
#define CHASE_STRIDE 521 /* coprime to WORDS: the chain visits every word */

static struct mm mm;

static u64 next_random(u64 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void sift_down(u64 *heap, u64 at, u64 len)
{
	u64 value = heap[at];

	for (u64 child; (child = 2 * at + 1) < len; at = child) {
		if (child + 1 < len && heap[child + 1] > heap[child])
			child++;
		if (heap[child] <= value)
			break;
		heap[at] = heap[child];
	}
	heap[at] = value;
}

static void heap_sort(u64 *words, u64 len)
{
	for (u64 i = len / 2; i-- > 0;)
		sift_down(words, i, len);
	for (u64 i = len; i-- > 1;) {
		u64 top = words[0];

		words[0] = words[i];
		words[i] = top;
		sift_down(words, 0, i);
	}
}

static u64 chase(u64 *words, u64 steps)
{
	u64 at = 0;

	for (u64 i = 0; i < WORDS; i++)
		words[i] = (i + CHASE_STRIDE) % WORDS;
	while (steps--)
		at = READ_ONCE(words[at]);
	return at;
}

static u64 checksum(const u64 *words, u64 len)
{
	u64 sum = 0;

	for (u64 i = 0; i < len; i++)
		sum = sum * 31 + words[i];
	return sum;
}

void program_main(void)
{
	u64 area = 1UL << 30, state = param_number("seed", 88172645463325252UL);
	u64 *words = (u64 *)area;

	mm_init(&mm, 4);
	populate(&mm, map_area(&mm, area, 2 * WORDS * 8, VM_WRITE, ORDER_4K));
	switch_mm(&mm);
	for (u64 i = 0; i < WORDS; i++)
		words[i] = next_random(&state);
	heap_sort(words, WORDS);
	report("sorted", checksum(words, WORDS));
	memset(words + WORDS, 0x5a, WORDS * 4);
	memcpy(words + WORDS + WORDS / 2, words, WORDS * 4);
	report("copied", checksum(words + WORDS, WORDS));
	report("chased", chase(words + WORDS, 3 * WORDS + 7));
}

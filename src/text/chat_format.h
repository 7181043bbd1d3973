/* chat_format.h: what a chat format is, as data: the text that stands around each message. Shared by chat.c,
 * which writes conversations, and chat_format.c, which holds the table and recognises templates. Read only.
 *
 * A literal may contain markers ("<|im_start|>user\n"): where the vocabulary has them they become ids.
 */
#ifndef FORAY_TEXT_CHAT_FORMAT_H
#define FORAY_TEXT_CHAT_FORMAT_H

#include <stdbool.h>

typedef enum { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT, CHAT_ROLES } chat_role;

typedef struct {
    const char *open, *close; /* literals around a message's text */
    bool trim;                /* white space at both ends of the text is cut */
} chat_turn;

typedef enum {
    BEGIN_NEVER,
    BEGIN_ALWAYS, /* where the vocabulary has a begin-of-text token */
    BEGIN_ASKED   /* as the model's files ask for it in front of any text */
} chat_begin;

typedef enum {
    SYSTEM_TURN,       /* a turn like the others, anywhere */
    SYSTEM_ONE_TURN,   /* exactly one turn, the first; empty where there is no system message */
    SYSTEM_FIRST_USER, /* in front of the first user message, inside its turn */
    SYSTEM_LAST_USER,  /* in front of the last message's text, if that is a user's */
    SYSTEM_IN_FRONT,   /* all of them, joined by blank lines, in front of everything */
    SYSTEM_REFUSED
} chat_system;

typedef enum {
    THINK_KEEP,
    THINK_CUT,   /* of an earlier reply only what follows its reasoning is shown */
    THINK_QWEN3, /* … and a reply after the last question opens with a block of reasoning, empty if need be */
    THINK_DEEPSEEK4 /* the opening of a reply is the end of the user's turn, and says whether reasoning follows: it
                     * does after the last user's only, and is then kept */
} chat_think;

struct chat_format {
    const char *name;
    const char *required[5]; /* markers without which the format makes no sense */
    chat_turn turn[CHAT_ROLES];
    const char *reply; /* where the assistant is to speak */
    const char *past;  /* THINK_DEEPSEEK4: the same after an earlier user's turn */
    bool reasons;      /* reply opens a block of reasoning: the text begins inside it */
    chat_begin begin;
    chat_system system;
    chat_think think;
    bool alternate;        /* user and assistant must take turns, the user first */
    bool begin_every_user; /* begin-of-text in front of each user turn, not once */
    bool trim_whole_turn;  /* trim applies to the system text and the message together */
};

#endif

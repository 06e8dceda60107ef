/* Node that runs a policy written by robo-rl deploy output=policy.h and commands a robot 1,000 times per second:
 * cc -std=c99 -O3 policy_node.c -o policy_node -lm && ./policy_node OBSERVATION_PORT COMMAND_PORT */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "policy.h"

#define RATE 1000 /* commands per second */
#ifndef MAX_AGE
#define MAX_AGE 0.2 /* seconds without an observation after which the robot is held still */
#endif
#define MAX_PACKETS 32 /* packets read per period: a flood of packets must not delay a command */

static volatile sig_atomic_t ends = 0;

static void end(int number)
{
    (void)number;
    ends = 1;
}

/* Replace this by the robot's interface: the newest observation, in the order of policy_observation_names, if any. */
static int receive(int node, float *observation)
{
    float packet[POLICY_OBSERVATION_SIZE + 1]; /* one element more, to recognise packets that are too long */
    int is_new = 0;
    ssize_t size;
    for (int i = 0; i < MAX_PACKETS && (size = recv(node, packet, sizeof packet, MSG_DONTWAIT)) >= 0; ++i)
        if (size == (ssize_t)(POLICY_OBSERVATION_SIZE * sizeof(float))) {
            memcpy(observation, packet, (size_t)size);
            is_new = 1;
        }
    return is_new;
}

/* Replace this by the robot's interface: rates of policy_action_names, in their units per second. */
static void command(int node, const struct sockaddr_in *robot, const float *rates)
{
    sendto(node, rates, POLICY_ACTION_SIZE * sizeof(float), 0, (const struct sockaddr *)robot, sizeof *robot);
}

static void add_period(struct timespec *due)
{
    if ((due->tv_nsec += 1000000000L / RATE) >= 1000000000L) {
        due->tv_nsec -= 1000000000L;
        ++due->tv_sec;
    }
}

static int is_before(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

int main(int count, char **words)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}}, robot = own;
    const int node = socket(AF_INET, SOCK_DGRAM, 0);
    own.sin_port = htons((unsigned short)(count == 3 ? atoi(words[1]) : 0));
    robot.sin_port = htons((unsigned short)(count == 3 ? atoi(words[2]) : 0));
    if (count != 3 || node < 0 || bind(node, (struct sockaddr *)&own, sizeof own) < 0) {
        fprintf(stderr, "usage: policy_node OBSERVATION_PORT COMMAND_PORT (of 127.0.0.1, the first one unused)\n");
        return 2;
    }
    signal(SIGINT, end);
    signal(SIGTERM, end);

    const long commands_per_action = lroundf(RATE / POLICY_CONTROL_RATE), max_age = lround(MAX_AGE * RATE);
    float observation[POLICY_OBSERVATION_SIZE] = {0.0f}, chunk[POLICY_ACTION_CHUNK * POLICY_ACTION_SIZE] = {0.0f};
    float rates[POLICY_ACTION_SIZE] = {0.0f};
    long age = max_age + 1, left = 0, sent = 0, late = 0;
    int next = POLICY_ACTION_CHUNK; /* index of the next action of the chunk */
    struct timespec due, now;
    clock_gettime(CLOCK_MONOTONIC, &due);
    while (!ends) {
        age = receive(node, observation) ? 0 : age + 1;
        if (age > max_age) { /* hold still until observations arrive again, then decide again */
            memset(rates, 0, sizeof rates);
            next = POLICY_ACTION_CHUNK;
            left = 0;
        } else if (left-- == 0) {
            if (next == POLICY_ACTION_CHUNK) {
                policy_act(observation, chunk);
                next = 0;
            }
            for (int i = 0; i < POLICY_ACTION_SIZE; ++i) { /* an action is a displacement in one control period */
                const float action = chunk[next * POLICY_ACTION_SIZE + i];
                rates[i] = isfinite(action) ? policy_action_scale[i] * action * POLICY_CONTROL_RATE : 0.0f;
            }
            ++next;
            left = commands_per_action - 1;
        }
        command(node, &robot, rates);
        ++sent;
        clock_gettime(CLOCK_MONOTONIC, &now);
        for (add_period(&due); is_before(&due, &now); add_period(&due)) { /* too late: these commands are left out */
            ++late;
            ++age;
            left -= left > 0;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
    }
    memset(rates, 0, sizeof rates);
    command(node, &robot, rates); /* a robot may repeat the last command */
    printf("%ld commands sent, %ld left out because they were late\n", sent, late);
    return 0;
}

// Requests of a page, and the answers of the server, which have their numbers.

export class Requests {
  // `send(message)` returns whether there is a connection.
  constructor(send) {
    this.send = send;
    this.number = 0;
    this.waiting = new Map(); // {resolve, reject} by number
    this.ask = this.ask.bind(this);
  }

  // Ask the server; return a promise of its answer.
  ask(request, details = {}) {
    const number = (this.number += 1);
    return new Promise((resolve, reject) => {
      this.waiting.set(number, { resolve, reject });
      if (!this.send({ number, request, ...details })) this.settle(number, "There is no connection");
    });
  }

  // Pass the answer to a request on, or the reason why there is none.
  settle(number, error, answer) {
    const request = this.waiting.get(number);
    this.waiting.delete(number);
    if (error !== undefined) request?.reject(new Error(error));
    else request?.resolve(answer);
  }

  // No answer will come.
  lose() {
    for (const number of [...this.waiting.keys()]) this.settle(number, "The connection was lost");
  }
}

// A front end without a page: uses the transport of `useChat`, and prints each state of the message that arrives.
// `stop` sends a message and stops reading at the first text, as the function `stop` of `useChat` does.
// node chat.mjs API send CHAT MESSAGE | stop CHAT MESSAGE | edit CHAT [MESSAGE_ID, MESSAGE] | regenerate CHAT MESSAGE_ID | resume CHAT
import { DefaultChatTransport, readUIMessageStream } from 'ai';

const [api, action, chatId, argument] = process.argv.slice(2);
const reading = new AbortController();
const transport = new DefaultChatTransport({ api });

async function open() {
  if (action === 'resume') return transport.reconnectToStream({ chatId });
  const [messageId, message] = {
    send: () => [undefined, JSON.parse(argument)],
    stop: () => [undefined, JSON.parse(argument)],
    edit: () => JSON.parse(argument),
    regenerate: () => [argument],
  }[action]();
  const trigger = action === 'regenerate' ? 'regenerate-message' : 'submit-message';
  const messages = message ? [message] : [];
  return transport.sendMessages({ trigger, chatId, messageId, messages, abortSignal: reading.signal });
}

const stream = await open();
if (stream === null) {
  console.log('null');
} else {
  const failures = [];
  for await (const message of readUIMessageStream({ stream, onError: (error) => failures.push(String(error)) })) {
    console.log(JSON.stringify(message));
    if (action === 'stop' && message.parts.some((part) => part.text)) reading.abort();
  }
  console.log(JSON.stringify({ failures }));
}

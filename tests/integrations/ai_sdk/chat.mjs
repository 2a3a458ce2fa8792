// A front end without a page: uses the transport of `useChat`, and prints each state of the message that arrives.
// node chat.mjs API send CHAT MESSAGE | regenerate CHAT MESSAGE_ID | resume CHAT
import { DefaultChatTransport, readUIMessageStream } from 'ai';

const [api, action, chatId, argument] = process.argv.slice(2);
const transport = new DefaultChatTransport({ api });

async function open() {
  if (action === 'resume') return transport.reconnectToStream({ chatId });
  const messages = action === 'send' ? [JSON.parse(argument)] : [];
  const trigger = action === 'send' ? 'submit-message' : 'regenerate-message';
  const messageId = action === 'send' ? undefined : argument;
  return transport.sendMessages({ trigger, chatId, messageId, messages, abortSignal: undefined });
}

const stream = await open();
if (stream === null) {
  console.log('null');
} else {
  const failures = [];
  for await (const message of readUIMessageStream({ stream, onError: (error) => failures.push(String(error)) })) {
    console.log(JSON.stringify(message));
  }
  console.log(JSON.stringify({ failures }));
}

// The participant of docs/conform.md, with sdk/typescript: skald conform --service payments --command "node participant.mjs".
import { Participant, Reject, Snooze, type Context } from "skald-participant";

interface Data {
  cents: number;
  rejects_at: string;
  fails_at: string;
  fails: number;
  waits_at: string;
  marks: boolean;
  receipt?: string;
}

const quick = { attempts: 3, first_ms: 50, longest_ms: 200 };

const work = (step: string) => async (ctx: Context, data: Data): Promise<void> => {
  await ctx.sql("INSERT INTO conform.ledger (scope, saga, step, cents) VALUES ($1, $2, $3, $4)", [ctx.scope, ctx.saga, step, data.cents]);
  if (step === "ship") await ctx.publish("conform.events", "shipped", { saga: ctx.saga });
  if (data.fails_at === step && ctx.attempt <= data.fails) throw new Error("as the data say");
  if (data.rejects_at === step) throw new Reject("as the data say");
  if (data.waits_at === step) {
    const open = await ctx.sql("SELECT FROM conform.gate WHERE scope = $1 AND saga = $2", [ctx.scope, ctx.saga]);
    if (open.rowCount === 0) throw new Snooze(100);
  }
  if (step === "charge" && data.marks) data.receipt = ctx.saga;
};

await new Participant(process.argv[2] ?? "payments")
  .compensatable("conform", "charge", work("charge"), work("charge.compensate"), quick)
  .pivot("conform", "ship", work("ship"), quick)
  .retriable("conform", "pay-out", work("pay-out"), quick)
  .run();
